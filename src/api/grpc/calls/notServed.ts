import { serviceMethods } from '../../../flow/index.js';
import type { FlowService } from '../../../flow/index.js';
import { ApiError } from '../../view/ApiError.js';

const EXECUTION_DATA_API: FlowService = 'flow.executiondata.ExecutionDataAPI';

/** Why a method of AccessAPI is not served. The first match counts. */
const reasons: readonly (readonly [method: RegExp, why: string])[] = [
  [/^Send/, 'this index is read-only and accepts no transactions'],
  [/BlockHeader/, 'this index streams blocks and digests, not headers'],
  [/TransactionResult/, 'this index does not keep transaction results'],
  [/SystemTransaction|ScheduledTransaction/, 'this index does not keep system transactions'],
  [/^GetAccount/, 'this index does not keep accounts'],
  [/^ExecuteScript/, 'this index does not keep the state that scripts read'],
  [/^GetEvents/, 'this index does not keep events'],
  [/ProtocolState/, 'this index does not keep protocol states'],
  [/^GetExecution/, 'this index does not keep execution results'],
];

/** By path: why each of Flow's calls that is missing here is not served, and whom to ask instead. */
export function notServed(
  options: { readonly accessApi: FlowService; readonly accessNodes: readonly string[] },
  { served }: { readonly served: Readonly<Record<string, unknown>> },
): Readonly<Record<string, ApiError>> {
  const { accessApi, accessNodes } = options;
  const [first] = accessNodes;
  const node = `an access node${first === undefined ? '' : `, such as ${first}`}`;
  const refusals = [accessApi, EXECUTION_DATA_API].flatMap((service) =>
    serviceMethods(service).map((method): [path: string, refusal: ApiError] => {
      const why =
        service === EXECUTION_DATA_API
          ? 'this index does not keep execution data'
          : (reasons.find(([pattern]) => pattern.test(method))?.[1] ?? 'this index does not have it');
      const message = `${method} is not served: ${why}; ask ${node}, or have the daemon forward such calls (api.forward)`;
      return [`/${service}/${method}`, new ApiError(404, 'not_served', message)];
    }),
  );
  return Object.fromEntries(refusals.filter(([path]) => !(path in served)));
}
