import { ApiError } from '../view/ApiError.js';

const EXECUTION_DATA_API = 'flow.executiondata.ExecutionDataAPI';

/** What an index does not keep, and the methods of AccessAPI that need it. */
const kept: Readonly<Record<string, readonly string[]>> = {
  'block headers': [
    'GetLatestBlockHeader',
    'GetBlockHeaderByID',
    'GetBlockHeaderByHeight',
    'SubscribeBlockHeadersFromStartBlockID',
    'SubscribeBlockHeadersFromStartHeight',
    'SubscribeBlockHeadersFromLatest',
  ],
  'transaction results': [
    'GetTransactionResult',
    'GetTransactionResultByIndex',
    'GetTransactionResultsByBlockID',
    'GetSystemTransactionResult',
    'GetScheduledTransactionResult',
  ],
  'system transactions': ['GetSystemTransaction', 'GetScheduledTransaction'],
  accounts: [
    'GetAccount',
    'GetAccountAtLatestBlock',
    'GetAccountAtBlockHeight',
    'GetAccountBalanceAtLatestBlock',
    'GetAccountBalanceAtBlockHeight',
    'GetAccountKeysAtLatestBlock',
    'GetAccountKeysAtBlockHeight',
    'GetAccountKeyAtLatestBlock',
    'GetAccountKeyAtBlockHeight',
  ],
  'the state that scripts read': [
    'ExecuteScriptAtLatestBlock',
    'ExecuteScriptAtBlockID',
    'ExecuteScriptAtBlockHeight',
  ],
  events: ['GetEventsForHeightRange', 'GetEventsForBlockIDs'],
  'protocol states': [
    'GetLatestProtocolStateSnapshot',
    'GetProtocolStateSnapshotByBlockID',
    'GetProtocolStateSnapshotByHeight',
  ],
  'execution results': [
    'GetExecutionResultForBlockID',
    'GetExecutionResultByID',
    'GetExecutionReceiptsByBlockID',
    'GetExecutionReceiptsByResultID',
  ],
};

const executionDataMethods = [
  'GetExecutionDataByBlockID',
  'SubscribeExecutionData',
  'SubscribeExecutionDataFromStartBlockID',
  'SubscribeExecutionDataFromStartBlockHeight',
  'SubscribeExecutionDataFromLatest',
  'SubscribeEvents',
  'SubscribeEventsFromStartBlockID',
  'SubscribeEventsFromStartHeight',
  'SubscribeEventsFromLatest',
  'SubscribeAccountStatusesFromStartBlockID',
  'SubscribeAccountStatusesFromStartHeight',
  'SubscribeAccountStatusesFromLatestBlock',
  'GetRegisterValues',
];

/** By path: why each of Flow's calls that is missing here is not served, and whom to ask instead. */
export function notServed(
  accessApi: string,
  { accessNodes }: { readonly accessNodes: readonly string[] },
): Readonly<Record<string, ApiError>> {
  const [first] = accessNodes;
  const node = `an access node${first === undefined ? '' : `, such as ${first}`}`;
  const askInstead = `ask ${node}, or have the daemon forward such calls (api.forward)`;
  const refusals: Record<string, ApiError> = {};
  const refuse = (service: string, methods: readonly string[], why: string): void => {
    for (const method of methods) {
      const message = `${method} is not served: ${why}; ${askInstead}`;
      refusals[`/${service}/${method}`] = new ApiError(404, 'not_served', message);
    }
  };
  for (const [what, methods] of Object.entries(kept)) {
    refuse(accessApi, methods, `this index does not keep ${what}`);
  }
  refuse(
    accessApi,
    ['SendTransaction', 'SendAndSubscribeTransactionStatuses'],
    'this index is read-only and accepts no transactions',
  );
  refuse(EXECUTION_DATA_API, executionDataMethods, 'this index does not keep execution data');
  return refusals;
}
