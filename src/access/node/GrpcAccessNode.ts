import { decodeBlockResponse, decodeCollectionResponse, RequestFields } from '../../flow/index.js';
import { decodeExecutionDataResponse, decodeFullCollectionResponse, toIdentifier } from '../../flow/index.js';
import { decodeIndexedBlocksResponse, decodeSubscribeBlocksResponse, WireError } from '../../flow/index.js';
import { decodeTransactionResponse, identifierBytes, parseIdentifier, WireWriter } from '../../flow/index.js';
import type { BlockDecoder, BlockExecutionData, Identifier } from '../../flow/index.js';
import { sentence } from '../../runtime/index.js';
import { RpcClient, type Decode, type RpcClientDependencies } from '../transport/RpcClient.js';
import type { RpcClientOptions, StreamQuestion } from '../transport/RpcClient.js';
import type { Candidate, NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { NodeEvents } from '../transport/ports.js';
import type { AccessMethod, AccessNode, BlockDigest, BlockHeader } from '../types.js';
import type { CallOptions, NodeHealth, NodeVersionInfo, Rank } from '../types.js';
import type { ReceivedBlock, ReceivedEvidence, StreamOptions, UnaryMethod } from '../types.js';

/** `BlockStatus` and `EventEncodingVersion` on the wire. */
const FINALIZED = 1;
const SEALED = 2;
const CCF = 1;
const NO_FIELDS = Buffer.alloc(0);

/** A node as the pool holds it. */
export type PooledNode = Pick<GrpcAccessNode, keyof GrpcAccessNode>;

/** One access node over one channel: its calls as the rooms above make them, all at one rank. */
export class GrpcAccessNode implements AccessNode, Candidate {
  readonly endpoint: Endpoint;
  readonly name: string;
  readonly healthRecord: NodeHealthRecord;
  /** The same node for history: every call and stream is made at that rank. */
  readonly history: AccessNode;
  /** Its load, its limits, and its end. */
  readonly client: Pick<RpcClient, 'admit' | 'close' | 'heldBack' | 'inFlight' | 'limits' | 'renew'>;
  readonly #client: RpcClient;
  readonly #proveBlock: BlockDecoder | undefined;
  readonly #rank: Rank;
  readonly #events: NodeEvents | undefined;
  readonly #live: GrpcAccessNode;
  /** Kept in `#live`: whether the node reports the status of blocks, as nodes have since the end of 2022. */
  #tellsStatus: boolean | undefined;

  /**
   * `proveBlock` proves the blocks that the node sends in full form, and throws `RefusedBlockError` for one that is not taken.
   * Default: blocks come in their light form, and are taken on the node's word. `live`: the same node, for history.
   */
  constructor(
    options: RpcClientOptions,
    dependencies: RpcClientDependencies & { readonly proveBlock?: BlockDecoder | undefined },
    live?: GrpcAccessNode,
  ) {
    this.client = this.#client = live === undefined ? new RpcClient(options, dependencies) : live.#client;
    this.#live = live ?? this;
    this.#proveBlock = dependencies.proveBlock;
    this.#rank = live === undefined ? 'live' : 'history';
    this.#events = dependencies.events;
    this.endpoint = options.endpoint;
    this.name = options.endpoint.name;
    this.healthRecord = dependencies.healthRecord;
    this.history = live === undefined ? new GrpcAccessNode(options, dependencies, this) : this;
  }

  healthOf(method: AccessMethod): NodeHealth {
    return this.healthRecord.healthOf(method);
  }

  get latencyMs(): number {
    return this.healthRecord.expectedLatencyMs;
  }

  supports(method: AccessMethod): boolean {
    return this.#client.supports(method, this.#rank);
  }

  delayMs(method: UnaryMethod): number {
    return this.#client.delayMs(method, this.#rank);
  }

  getNetworkParameters(options?: CallOptions): Promise<{ readonly chainId: string }> {
    const decode = (message: Buffer) => ({ chainId: textOf(new RequestFields(message), 1) });
    return this.#ask('GetNetworkParameters', NO_FIELDS, decode, options);
  }

  getNodeVersionInfo(options?: CallOptions): Promise<NodeVersionInfo> {
    return this.#ask('GetNodeVersionInfo', NO_FIELDS, decodeNodeVersionInfo, options);
  }

  getLatestBlockHeader(sealed: boolean, options?: CallOptions): Promise<BlockHeader> {
    const decode: Decode<BlockHeader> = (message) => {
      const header = decodeBlockHeader(message);
      this.#live.#tellsStatus ||= new RequestFields(message).uint32(2) !== 0;
      if (!sealed) this.#events?.onHead?.(header.height);
      return header;
    };
    return this.#ask('GetLatestBlockHeader', numbers(Number(sealed)), decode, options);
  }

  getBlockByHeight(height: number, options?: CallOptions): Promise<ReceivedBlock> {
    const decode: Decode<ReceivedBlock> = (message) => {
      const { block, status } = decodeBlockResponse(message, this.#proveBlock);
      if (block.height !== height) throw new WireError(`asked for height ${height}, got ${block.height}`);
      if (status !== 'unknown') this.#live.#tellsStatus = true;
      // A node that reports no status serves only finalized blocks by height.
      return { block, status: this.#live.#tellsStatus === false ? 'finalized' : status };
    };
    const request = numbers(height, Number(this.#proveBlock !== undefined));
    return this.#ask('GetBlockByHeight', request, decode, options);
  }

  getCollectionTransactionIds(id: Identifier, options?: CallOptions): Promise<readonly Identifier[]> {
    return this.#ask('GetCollectionByID', idRequest(id), decodeCollectionResponse, options);
  }

  getFullCollection(id: Identifier, options?: CallOptions): Promise<readonly Uint8Array[]> {
    return this.#ask('GetFullCollectionByID', idRequest(id), decodeFullCollectionResponse, options);
  }

  getTransaction(id: Identifier, options?: CallOptions): Promise<Uint8Array> {
    return this.#ask('GetTransaction', idRequest(id), decodeTransactionResponse, options);
  }

  getProtocolStateSnapshot(height: number, options?: CallOptions): Promise<Uint8Array> {
    const decode = (message: Buffer): Uint8Array => {
      const snapshot = new RequestFields(message).bytes(1);
      if (snapshot.length === 0) throw new WireError('the snapshot is empty');
      return snapshot;
    };
    return this.#ask('GetProtocolStateSnapshotByHeight', numbers(height), decode, options);
  }

  getCommitteeEvidence(height: number, options?: CallOptions): Promise<ReceivedEvidence> {
    return this.#ask('GetCommitteeEvidence', numbers(height), decodeCommitteeEvidence, options);
  }

  subscribeBlocks(startHeight: number, options: StreamOptions): AsyncIterable<ReceivedBlock> {
    const request = numbers(startHeight, FINALIZED, Number(this.#proveBlock !== undefined));
    const decode: Decode<ReceivedBlock> = (message) => ({
      block: decodeSubscribeBlocksResponse(message, this.#proveBlock),
      status: 'finalized',
    });
    return this.#follow({ method: 'SubscribeBlocksFromStartHeight', request, decode }, options);
  }

  subscribeBlockDigests(options: StreamOptions & { readonly sealed: boolean }): AsyncIterable<BlockDigest> {
    const request = numbers(options.sealed ? SEALED : FINALIZED);
    const decode: Decode<BlockDigest> = (message) => {
      const fields = new RequestFields(message);
      const digest = { id: toIdentifier(fields.bytes(1)), height: fields.safeInteger(2) };
      if (!options.sealed) this.#events?.onHead?.(digest.height);
      return digest;
    };
    return this.#follow({ method: 'SubscribeBlockDigestsFromLatest', request, decode }, options);
  }

  subscribeExecutionData(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData> {
    // CCF: the node passes events through instead of transcoding each of them, and we skip them anyway.
    const decode = decodeExecutionDataResponse;
    const method = 'SubscribeExecutionDataFromStartBlockHeight';
    const deprecated = 'SubscribeExecutionData';
    if (this.supports(method) || !this.supports(deprecated))
      return this.#follow({ method, request: numbers(startHeight, CCF), decode }, options);
    const request = new WireWriter().number(2, startHeight).number(3, CCF).finish();
    return this.#follow({ method: deprecated, request, decode }, options);
  }

  async *subscribeIndexedBlocks(from: number, options: StreamOptions): AsyncIterable<BlockExecutionData> {
    const request = numbers(from);
    const decode = decodeIndexedBlocksResponse;
    // A message has several blocks. The next one is read after the last block of the current one.
    for await (const blocks of this.#follow({ method: 'SubscribeIndexedBlocks', request, decode }, options))
      yield* blocks;
  }

  #ask<T>(method: UnaryMethod, request: Buffer, decode: Decode<T>, options?: CallOptions): Promise<T> {
    return this.#client.unary(method, request, decode, this.#rank, options);
  }

  #follow<T>(question: StreamQuestion<T>, { signal }: StreamOptions): AsyncIterable<T> {
    return this.#client.stream(question, signal, this.#rank);
  }
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
