import { decodeBlockResponse, decodeCollectionResponse, RequestFields } from '../../flow/index.js';
import { decodeExecutionDataResponse, splitCollection, toIdentifier } from '../../flow/index.js';
import { decodeIndexedBlocksResponse, decodeSubscribeBlocksResponse, WireError } from '../../flow/index.js';
import { decodeTransactionResponse, identifierBytes, parseIdentifier, WireWriter } from '../../flow/index.js';
import type { BlockDecoder, Identifier } from '../../flow/index.js';
import { sentence } from '../../runtime/index.js';
import { rpcClient, type Decode, type RpcClient, type RpcClientOptions } from '../transport/rpcClient.js';
import type { RpcClientDependencies, StreamQuestion } from '../transport/rpcClient.js';
import type { AccessNode, BlockHeader, CallOptions, NodeVersionInfo, Rank } from '../types.js';
import type { ReceivedBlock, ReceivedEvidence, StreamOptions, UnaryMethod } from '../types.js';

/** `BlockStatus` and `EventEncodingVersion` on the wire. */
const FINALIZED = 1;
const SEALED = 2;
const CCF = 1;
const NO_FIELDS = Buffer.alloc(0);

/** A node as the pool holds it. */
export type PooledNode = ReturnType<typeof grpcAccessNode>;
type RankedNode = AccessNode & { readonly latencyMs: number };

/**
 * One access node over one channel. `proveBlock` proves the blocks that it sends in full form, and throws
 * `RefusedBlockError` for a rejected one. Default: blocks come in their light form, and the node is trusted.
 */
export function grpcAccessNode(
  options: RpcClientOptions,
  dependencies: RpcClientDependencies & { readonly proveBlock?: BlockDecoder | undefined },
) {
  const { events, healthRecord, proveBlock } = dependencies;
  const { endpoint } = options;
  const isFull = Number(proveBlock !== undefined);
  const rpc = rpcClient(options, dependencies);
  const client: Pick<RpcClient, 'admit' | 'close' | 'heldBack' | 'inFlight' | 'limits' | 'renew'> = rpc;
  /** Whether the node reports the status of blocks, as nodes have since the end of 2022. */
  let reportsStatus: boolean | undefined;

  /** The node's calls and streams, all at one rank. */
  const at = (rank: Rank): RankedNode => {
    const ask = <T>(method: UnaryMethod, request: Buffer, decode: Decode<T>, how?: CallOptions): Promise<T> =>
      rpc.unary(method, request, decode, rank, how);
    const follow = <T>(question: StreamQuestion<T>, { signal }: StreamOptions): AsyncIterable<T> =>
      rpc.follow(question, signal, rank);
    const node: RankedNode = {
      name: endpoint.name,
      healthOf: (method) => healthRecord.healthOf(method),
      get latencyMs() {
        return healthRecord.expectedLatencyMs;
      },
      supports: (method) => rpc.supports(method, rank),
      delayMs: (method) => rpc.delayMs(method, rank),

      getNetworkParameters: (how) => ask('GetNetworkParameters', NO_FIELDS, decodeNetworkParameters, how),
      getNodeVersionInfo: (how) => ask('GetNodeVersionInfo', NO_FIELDS, decodeNodeVersionInfo, how),
      getLatestBlockHeader: (sealed, how) => {
        const decode = (message: Buffer): BlockHeader => {
          const header = decodeBlockHeader(message);
          reportsStatus ||= new RequestFields(message).uint32(2) !== 0;
          if (!sealed) events?.onHead?.(header.height);
          return header;
        };
        return ask('GetLatestBlockHeader', numbers(Number(sealed)), decode, how);
      },
      getBlockByHeight: (height, how) => {
        const decode = (message: Buffer): ReceivedBlock => {
          const { block, status } = decodeBlockResponse(message, proveBlock);
          if (block.height !== height) throw new WireError(`asked for height ${height}, got ${block.height}`);
          if (status !== 'unknown') reportsStatus = true;
          // A node that reports no status serves only finalized blocks by height.
          return { block, status: reportsStatus === false ? 'finalized' : status };
        };
        return ask('GetBlockByHeight', numbers(height, isFull), decode, how);
      },
      getCollectionTransactionIds: (id, how) =>
        ask('GetCollectionByID', idRequest(id), decodeCollectionResponse, how),
      getFullCollection: (id, how) => ask('GetFullCollectionByID', idRequest(id), splitCollection, how),
      getTransaction: (id, how) => ask('GetTransaction', idRequest(id), decodeTransactionResponse, how),
      getProtocolStateSnapshot: (height, how) =>
        ask('GetProtocolStateSnapshotByHeight', numbers(height), decodeSnapshot, how),
      getCommitteeEvidence: (height, how) =>
        ask('GetCommitteeEvidence', numbers(height), decodeCommitteeEvidence, how),

      subscribeBlocks: (from, how) => {
        const request = numbers(from, FINALIZED, isFull);
        const decode = (message: Buffer): ReceivedBlock => ({
          block: decodeSubscribeBlocksResponse(message, proveBlock),
          status: 'finalized',
        });
        return follow({ method: 'SubscribeBlocksFromStartHeight', request, decode }, how);
      },
      subscribeBlockDigests: ({ sealed, ...how }) => {
        const decode = (message: Buffer) => {
          const fields = new RequestFields(message);
          const digest = { id: toIdentifier(fields.bytes(1)), height: fields.safeInteger(2) };
          if (!sealed) events?.onHead?.(digest.height);
          return digest;
        };
        const request = numbers(sealed ? SEALED : FINALIZED);
        return follow({ method: 'SubscribeBlockDigestsFromLatest', request, decode }, how);
      },
      subscribeExecutionData: (from, how) => {
        // CCF: the node passes events through instead of transcoding each of them, and we skip them anyway.
        const decode = decodeExecutionDataResponse;
        const method = 'SubscribeExecutionDataFromStartBlockHeight';
        const deprecated = 'SubscribeExecutionData';
        if (node.supports(method) || !node.supports(deprecated))
          return follow({ method, request: numbers(from, CCF), decode }, how);
        const request = new WireWriter().number(2, from).number(3, CCF).finish();
        return follow({ method: deprecated, request, decode }, how);
      },
      async *subscribeIndexedBlocks(from, how) {
        const request = numbers(from);
        const decode = decodeIndexedBlocksResponse;
        // A message has several blocks. The next one is read after the last block of the current one.
        for await (const blocks of follow({ method: 'SubscribeIndexedBlocks', request, decode }, how))
          yield* blocks;
      },
    };
    return node;
  };

  return Object.assign(at('live'), {
    endpoint,
    healthRecord,
    /** The same node for history: every call and stream is made at that rank. */
    history: at('history'),
    /** Its load and limits, and the way to close it. */
    client,
  });
}

/** A request of numbers alone, in the order of their fields. Flags are numbers on the wire, 0 and 1. */
function numbers(...values: readonly number[]): Buffer {
  const writer = new WireWriter();
  for (const [index, value] of values.entries()) writer.number(index + 1, value);
  return writer.finish();
}

function idRequest(id: Identifier): Buffer {
  return new WireWriter().bytes(1, identifierBytes(id)).finish();
}

/** Bounds the names of chains and versions, which are logged: real ones have a few dozen characters. */
const MAX_TEXT_LENGTH = 256;

function textOf(fields: RequestFields, field: number): string {
  const text = fields.text(field);
  if (text.length > MAX_TEXT_LENGTH) throw new WireError('a name is too long');
  return sentence(text);
}

/** The message in field 1. */
function partOf(message: Buffer, name: string): RequestFields {
  const part = new RequestFields(message).message(1);
  if (part === undefined) throw new WireError(`${name} is missing`);
  return part;
}

/** Expected errors of all of these: `WireError`. */
function decodeNetworkParameters(message: Buffer): { readonly chainId: string } {
  return { chainId: textOf(new RequestFields(message), 1) };
}

function decodeNodeVersionInfo(message: Buffer): NodeVersionInfo {
  const info = partOf(message, 'info');
  return {
    semver: textOf(info, 1),
    sporkId: parseIdentifier(info.bytes(3).toString('hex')) ?? '',
    sporkRootHeight: info.safeInteger(5),
    nodeRootHeight: info.safeInteger(6),
  };
}

function decodeBlockHeader(message: Buffer): BlockHeader {
  const block = partOf(message, 'block');
  return {
    id: toIdentifier(block.bytes(1)),
    parentId: toIdentifier(block.bytes(2)),
    height: block.safeInteger(3),
    chainId: textOf(block, 11),
    timestampMs: timestampMs(block.message(4)),
  };
}

function decodeSnapshot(message: Buffer): Uint8Array {
  const snapshot = new RequestFields(message).bytes(1);
  if (snapshot.length === 0) throw new WireError('the snapshot is empty');
  return snapshot;
}

function decodeCommitteeEvidence(message: Buffer): ReceivedEvidence {
  const fields = new RequestFields(message);
  return {
    height: fields.safeInteger(1),
    id: toIdentifier(fields.bytes(2)),
    protocolState: fields.bytes(3),
    epochState: fields.bytes(4),
    events: fields.all(5),
  };
}

/** Whole seconds are enough. An invalid value counts as none: nothing stored depends on it. */
function timestampMs(timestamp: RequestFields | undefined): number | undefined {
  if (timestamp === undefined) return undefined;
  const ms = Number(BigInt.asIntN(64, timestamp.number(1))) * 1_000;
  return Number.isSafeInteger(ms) ? ms : undefined;
}
