import {
  decodeBlockResponse,
  decodeCollectionResponse,
  decodeExecutionDataResponse,
  decodeFullCollectionResponse,
  decodeIndexedBlocksResponse,
  decodeSubscribeBlocksResponse,
  decodeTransactionResponse,
  identifierBytes,
  WireError,
} from '../../flow/index.js';
import type { BlockDecoder, BlockExecutionData, Identifier } from '../../flow/index.js';
import {
  decodeBlockDigest,
  decodeBlockHeader,
  decodeCommitteeEvidence,
  decodeNetworkParameters,
  decodeNodeVersionInfo,
  decodeProtocolStateSnapshot,
} from '../transport/decodeResponses.js';
import { RpcClient } from '../transport/RpcClient.js';
import type {
  Decode,
  MethodLimit,
  RpcClientDependencies,
  RpcClientOptions,
  StreamQuestion,
} from '../transport/RpcClient.js';
import type { Candidate, NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import { NodeGate } from '../forwarding/NodeGate.js';
import type {
  AccessMethod,
  AccessNode,
  BlockDigest,
  BlockHeader,
  CallOptions,
  NodeHealth,
  NodeVersionInfo,
  Rank,
  ReceivedBlock,
  ReceivedEvidence,
  StreamOptions,
  UnaryMethod,
} from '../types.js';

export type GrpcAccessNodeOptions = RpcClientOptions;
export interface GrpcAccessNodeDependencies extends RpcClientDependencies {
  /**
   * Proves the blocks that the node sends in full form. Throws `ForgedBlockError` for one that its id refutes. Default: blocks
   * come in their light form, and are taken on the node's word.
   */
  readonly proveBlock?: BlockDecoder | undefined;
}

/** A node as the pool holds it. */
export interface PooledNode extends AccessNode, Candidate {
  /** The same node for history: every call and stream is made at that rank. */
  readonly history: AccessNode;
  /** Admits forwarded calls. Absent if the node is not reached by gRPC. */
  readonly gate?: NodeGate;
  /** The methods whose calls are limited now. Absent if the node is not reached by gRPC. */
  limits?(): readonly MethodLimit[];
  /** Further calls fail; calls under way end by their signals. */
  close(): void;
}

/** The calls of one node as the rooms above make them, all at one rank unless a call names a lower one. */
class NodeCalls implements AccessNode {
  readonly name: string;
  readonly healthRecord: NodeHealthRecord;
  readonly #client: RpcClient;
  readonly #proveBlock: BlockDecoder | undefined;
  readonly #rank: Rank;

  constructor(client: RpcClient, proveBlock: BlockDecoder | undefined, rank: Rank) {
    this.name = client.name;
    this.healthRecord = client.healthRecord;
    this.#client = client;
    this.#proveBlock = proveBlock;
    this.#rank = rank;
  }

  get health(): NodeHealth {
    return this.healthRecord.health;
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
    return this.#ask('GetNetworkParameters', {}, decodeNetworkParameters, options);
  }

  getNodeVersionInfo(options?: CallOptions): Promise<NodeVersionInfo> {
    return this.#ask('GetNodeVersionInfo', {}, decodeNodeVersionInfo, options);
  }

  getLatestBlockHeader(sealed: boolean, options?: CallOptions): Promise<BlockHeader> {
    const decode: Decode<BlockHeader> = (message, stub) => {
      const header = decodeBlockHeader(message, stub);
      if (!sealed) this.#client.reportedHead(header.height);
      return header;
    };
    return this.#ask('GetLatestBlockHeader', { is_sealed: sealed }, decode, options);
  }

  getBlockByHeight(height: number, options?: CallOptions): Promise<ReceivedBlock> {
    const decode: Decode<ReceivedBlock> = (message) => {
      const received = decodeBlockResponse(message, this.#proveBlock);
      if (received.block.height !== height) {
        throw new WireError(`asked for height ${height}, got ${received.block.height}`);
      }
      return received;
    };
    const request = { height, full_block_response: this.#proveBlock !== undefined };
    return this.#ask('GetBlockByHeight', request, decode, options);
  }

  getCollectionTransactionIds(id: Identifier, options?: CallOptions): Promise<readonly Identifier[]> {
    return this.#ask('GetCollectionByID', { id: identifierBytes(id) }, decodeCollectionResponse, options);
  }

  getFullCollection(id: Identifier, options?: CallOptions): Promise<readonly Uint8Array[]> {
    const request = { id: identifierBytes(id) };
    return this.#ask('GetFullCollectionByID', request, decodeFullCollectionResponse, options);
  }

  getTransaction(id: Identifier, options?: CallOptions): Promise<Uint8Array> {
    return this.#ask('GetTransaction', { id: identifierBytes(id) }, decodeTransactionResponse, options);
  }

  getProtocolStateSnapshot(height: number, options?: CallOptions): Promise<Uint8Array> {
    const request = { block_height: height };
    return this.#ask('GetProtocolStateSnapshotByHeight', request, decodeProtocolStateSnapshot, options);
  }

  getCommitteeEvidence(height: number, options?: CallOptions): Promise<ReceivedEvidence> {
    return this.#ask('GetCommitteeEvidence', { height }, decodeCommitteeEvidence, options);
  }

  subscribeBlocks(startHeight: number, options: StreamOptions): AsyncIterable<ReceivedBlock> {
    const request = {
      start_block_height: startHeight,
      block_status: 'BLOCK_FINALIZED',
      full_block_response: this.#proveBlock !== undefined,
    };
    const decode: Decode<ReceivedBlock> = (message) => ({
      block: decodeSubscribeBlocksResponse(message, this.#proveBlock),
      status: 'finalized',
    });
    return this.#follow({ method: 'SubscribeBlocksFromStartHeight', request, decode }, options);
  }

  subscribeBlockDigests(options: StreamOptions & { readonly sealed: boolean }): AsyncIterable<BlockDigest> {
    const request = { block_status: options.sealed ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED' };
    const decode: Decode<BlockDigest> = (message, stub) => {
      const digest = decodeBlockDigest(message, stub);
      if (!options.sealed) this.#client.reportedHead(digest.height);
      return digest;
    };
    return this.#follow({ method: 'SubscribeBlockDigestsFromLatest', request, decode }, options);
  }

  subscribeExecutionData(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData> {
    // CCF: the node passes events through instead of transcoding each of them, and we skip them anyway.
    const request = { start_block_height: startHeight, event_encoding_version: 'CCF_V0' };
    const decode = decodeExecutionDataResponse;
    const deprecated = { method: 'SubscribeExecutionData', request, decode } as const;
    const method = 'SubscribeExecutionDataFromStartBlockHeight';
    const asksDeprecated = !this.supports(method) && this.supports(deprecated.method);
    return this.#follow(
      asksDeprecated ? deprecated : { method, request, decode, otherwise: deprecated },
      options,
    );
  }

  async *subscribeIndexedBlocks(
    startHeight: number,
    options: StreamOptions,
  ): AsyncGenerator<BlockExecutionData, undefined> {
    const request = { start_height: startHeight };
    const decode = decodeIndexedBlocksResponse;
    // A message has several blocks. The next one is read after the last block of the current one.
    for await (const blocks of this.#follow({ method: 'SubscribeIndexedBlocks', request, decode }, options))
      yield* blocks;
    return undefined;
  }

  #ask<T>(method: UnaryMethod, request: object, decode: Decode<T>, options: CallOptions = {}): Promise<T> {
    return this.#client.unary(method, request, decode, { ...options, rank: this.#lower(options.rank) });
  }

  #follow<T>(question: StreamQuestion<T>, { signal, rank }: StreamOptions): AsyncIterable<T> {
    return this.#client.stream(question, signal, this.#lower(rank));
  }

  #lower(rank: Rank = this.#rank): Rank {
    return this.#rank === 'history' ? 'history' : rank;
  }
}

/** One access node over one channel. */
export class GrpcAccessNode extends NodeCalls implements PooledNode {
  readonly gate: NodeGate;
  readonly history: AccessNode;
  readonly #client: RpcClient;

  constructor(options: GrpcAccessNodeOptions, dependencies: GrpcAccessNodeDependencies) {
    const client = new RpcClient(options, dependencies);
    super(client, dependencies.proveBlock, 'live');
    this.#client = client;
    this.history = new NodeCalls(client, dependencies.proveBlock, 'history');
    this.gate = new NodeGate(options, { ...dependencies, caller: client });
  }

  get inFlight(): number {
    return this.#client.inFlight;
  }

  get heldBack(): boolean {
    return this.#client.heldBack;
  }

  limits(): readonly MethodLimit[] {
    return this.#client.limits();
  }

  close(): void {
    this.#client.close();
  }
}
