import { loadProtocol } from '../../flow/index.js';
import type { AccessMethod } from '../types.js';

/** Encodes the request of one method and, for the rarely used ones, decodes its answer. */
export interface MethodStub {
  /** `/service/method`. */
  readonly path: string;
  encode(request: object): Buffer;
  /** The answer as plain fields, defaults filled in. Expected errors: any Error means malformed bytes. */
  decode(message: Buffer): object;
}

/** What an indexer has for two of them: a block with what proves it, as it keeps nothing that would make it a full one. */
type IndexerMethod = 'GetProvableBlock' | 'SubscribeProvableBlocks';

export type MethodStubs = Readonly<Record<AccessMethod | IndexerMethod, MethodStub>>;

const ACCESS = 'flow.access.AccessAPI';
const EXECUTION_DATA = 'flow.executiondata.ExecutionDataAPI';
const INDEX = 'flow_collection_indexer.v1.IndexAPI';

/**
 * The methods we call, from the package's own protobuf definitions. Loaded at the first call, because that takes tens of
 * milliseconds, and the daemon is serving by then.
 */
export function loadMethodStubs(): MethodStubs {
  let protocol: ReturnType<typeof loadProtocol> | undefined;
  const stub = (service: string, method: keyof MethodStubs): MethodStub => {
    const find = () => {
      const methods = (protocol ??= loadProtocol())[service];
      const definition = methods === undefined || 'format' in methods ? undefined : methods[method];
      if (definition === undefined) throw new Error(`${service} has no method ${method}`);
      return definition;
    };
    let found: ReturnType<typeof find> | undefined;
    return {
      path: `/${service}/${method}`,
      encode: (request) => (found ??= find()).requestSerialize(request),
      decode: (message) => (found ??= find()).responseDeserialize(message),
    };
  };
  return {
    GetNetworkParameters: stub(ACCESS, 'GetNetworkParameters'),
    GetNodeVersionInfo: stub(ACCESS, 'GetNodeVersionInfo'),
    GetLatestBlockHeader: stub(ACCESS, 'GetLatestBlockHeader'),
    GetBlockByHeight: stub(ACCESS, 'GetBlockByHeight'),
    GetCollectionByID: stub(ACCESS, 'GetCollectionByID'),
    GetFullCollectionByID: stub(ACCESS, 'GetFullCollectionByID'),
    GetTransaction: stub(ACCESS, 'GetTransaction'),
    GetProtocolStateSnapshotByHeight: stub(ACCESS, 'GetProtocolStateSnapshotByHeight'),
    SubscribeBlocksFromStartHeight: stub(ACCESS, 'SubscribeBlocksFromStartHeight'),
    SubscribeBlockDigestsFromLatest: stub(ACCESS, 'SubscribeBlockDigestsFromLatest'),
    SubscribeExecutionDataFromStartBlockHeight: stub(
      EXECUTION_DATA,
      'SubscribeExecutionDataFromStartBlockHeight',
    ),
    SubscribeExecutionData: stub(EXECUTION_DATA, 'SubscribeExecutionData'),
    SubscribeIndexedBlocks: stub(INDEX, 'SubscribeIndexedBlocks'),
    GetProvableBlock: stub(INDEX, 'GetProvableBlock'),
    SubscribeProvableBlocks: stub(INDEX, 'SubscribeProvableBlocks'),
  };
}

/** The same for an indexer that gives blocks with their proofs. */
export function indexerStubs(stubs: MethodStubs): MethodStubs {
  return {
    ...stubs,
    GetBlockByHeight: stubs.GetProvableBlock,
    SubscribeBlocksFromStartHeight: stubs.SubscribeProvableBlocks,
  };
}
