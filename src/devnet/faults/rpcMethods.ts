const accessService = 'flow.access.AccessAPI';
const executionDataService = 'flow.executiondata.ExecutionDataAPI';
const indexService = 'flow_collection_indexer.v1.IndexAPI';

/** What a method's answer is about; decides which faults apply. */
export type Subject =
  | 'none'
  | 'network'
  | 'version'
  | 'header'
  | 'block'
  | 'digest'
  | 'collection'
  | 'transaction'
  | 'snapshot'
  | 'executionData'
  | 'indexedBlock';

export interface MethodInfo {
  readonly service: string;
  readonly subject: Subject;
  readonly isStream: boolean;
}

const unary = (subject: Subject, service = accessService): MethodInfo => ({
  service,
  subject,
  isStream: false,
});
const stream = (subject: Subject, service = accessService): MethodInfo => ({
  service,
  subject,
  isStream: true,
});

/** Every method of the node. Names are unique across its services. */
export const methods = {
  Ping: unary('none'),
  GetNetworkParameters: unary('network'),
  GetNodeVersionInfo: unary('version'),
  GetLatestBlockHeader: unary('header'),
  GetBlockHeaderByID: unary('header'),
  GetBlockHeaderByHeight: unary('header'),
  GetLatestBlock: unary('block'),
  GetBlockByID: unary('block'),
  GetBlockByHeight: unary('block'),
  GetCollectionByID: unary('collection'),
  GetFullCollectionByID: unary('collection'),
  GetTransaction: unary('transaction'),
  GetTransactionsByBlockID: unary('transaction'),
  GetLatestProtocolStateSnapshot: unary('snapshot'),
  GetProtocolStateSnapshotByHeight: unary('snapshot'),
  GetProtocolStateSnapshotByBlockID: unary('snapshot'),
  SubscribeBlocksFromStartBlockID: stream('block'),
  SubscribeBlocksFromStartHeight: stream('block'),
  SubscribeBlocksFromLatest: stream('block'),
  SubscribeBlockHeadersFromStartBlockID: stream('header'),
  SubscribeBlockHeadersFromStartHeight: stream('header'),
  SubscribeBlockHeadersFromLatest: stream('header'),
  SubscribeBlockDigestsFromStartBlockID: stream('digest'),
  SubscribeBlockDigestsFromStartHeight: stream('digest'),
  SubscribeBlockDigestsFromLatest: stream('digest'),
  GetExecutionDataByBlockID: unary('executionData', executionDataService),
  SubscribeExecutionData: stream('executionData', executionDataService),
  SubscribeExecutionDataFromStartBlockID: stream('executionData', executionDataService),
  SubscribeExecutionDataFromStartBlockHeight: stream('executionData', executionDataService),
  SubscribeExecutionDataFromLatest: stream('executionData', executionDataService),
  SubscribeIndexedBlocks: stream('indexedBlock', indexService),
} as const satisfies Record<string, MethodInfo>;

export type DevnetMethod = keyof typeof methods;

export const methodNames = Object.keys(methods) as readonly DevnetMethod[];

/** The fields of all requests; proto/flow says which request has which. */
export interface RequestFields {
  readonly id: Buffer;
  readonly block_id: Buffer;
  readonly height: string;
  readonly block_height: string;
  readonly is_sealed: boolean;
  readonly full_block_response: boolean;
  readonly start_block_id: Buffer;
  readonly start_block_height: string;
  readonly block_status: string;
  readonly start_height: string;
  readonly end_height: string;
}

export type DevnetRequest = Partial<RequestFields>;
