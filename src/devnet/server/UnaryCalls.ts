import { type Connection, type DevnetNode, unimplemented } from '../node/DevnetNode.js';
import { type DevnetMethod, type DevnetRequest, methods } from '../faults/rpcMethods.js';
import { RequestHandlers } from './RequestHandlers.js';
import { RateLimit } from './RateLimit.js';
import { StatusError } from '../faults/StatusError.js';

/** The node's unary calls, with their shared rate limit and their faults. */
export class UnaryCalls {
  readonly #node: DevnetNode;
  readonly #handlers: RequestHandlers;
  readonly #rateLimit: RateLimit;

  constructor(dependencies: { readonly node: DevnetNode }) {
    const { node } = dependencies;
    this.#node = node;
    this.#handlers = new RequestHandlers(dependencies);
    const { ratePerSecond } = node.options;
    this.#rateLimit = new RateLimit({ perSecond: ratePerSecond }, { clock: node.clock });
  }

  /** Answers one call. Expected errors: `StatusError`; the signal's abort reason when the caller leaves. */
  async answer(
    method: DevnetMethod,
    request: DevnetRequest,
    { signal, connection }: { readonly signal: AbortSignal; readonly connection: Connection },
  ): Promise<Buffer> {
    const node = this.#node;
    if (!node.serves(method)) throw unimplemented(method);
    if (!this.#rateLimit.admits(method)) {
      const path = `/${methods[method].service}/${method}`;
      throw new StatusError('RESOURCE_EXHAUSTED', `${path} rate limit reached, please retry later.`);
    }
    const question = this.#handlers.ask(method, request);
    const { height, key = '' } = question;
    const effects = node.faults.strike(method, { on: 'message', height, key });
    const lie = effects.length === 0 ? undefined : await node.applyFaults(effects, { signal, connection });
    const answer = question.answer(lie);
    const { subject } = methods[method];
    if (height !== undefined && subject !== 'header' && subject !== 'snapshot') {
      node.requests.sent(height);
      node.head.wasRead(height);
    }
    return answer;
  }
}
