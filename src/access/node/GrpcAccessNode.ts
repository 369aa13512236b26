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
  MethodLimit,
  RpcClientDependencies,
  RpcClientOptions,
  StreamQuestion,
} from '../transport/RpcClient.js';
import type { NodeEvents } from '../transport/ports.js';
import type { Candidate, NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import { NodeGate } from '../forwarding/NodeGate.js';
import type { MethodStubs } from '../transport/methodStubs.js';
import type {
  AccessMethod,
  AccessNode,
  BlockDigest,
  BlockHeader,
  CallOptions,
  NodeHealth,
  NodeVersionInfo,
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
  /** Admits forwarded calls. Absent if the node is not reached by gRPC. */
  readonly gate?: NodeGate;
  /** The methods whose calls are limited now. Absent if the node is not reached by gRPC. */
  limits?(): readonly MethodLimit[];
  /** Further calls fail; calls under way end by their signals. */
  close(): void;
}

/** One access node over one channel. */
export class GrpcAccessNode implements PooledNode {
  readonly name: string;
  readonly healthRecord: NodeHealthRecord;
  readonly gate: NodeGate;
  readonly #stubs: MethodStubs;
  readonly #events: NodeEvents;
  readonly #caller: RpcClient;
  readonly #proveBlock: BlockDecoder | undefined;

  constructor(options: GrpcAccessNodeOptions, dependencies: GrpcAccessNodeDependencies) {
    this.name = options.endpoint.name;
    this.healthRecord = dependencies.healthRecord;
    this.#stubs = dependencies.stubs;
    this.#events = dependencies.events ?? {};
    this.#proveBlock = dependencies.proveBlock;
    this.#caller = new RpcClient(options, dependencies);
    this.gate = new NodeGate(options, { ...dependencies, caller: this.#caller });
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

  get inFlight(): number {
    return this.#caller.inFlight;
  }

  get heldBack(): boolean {
    return this.#caller.heldBack;
  }

  limits(): readonly MethodLimit[] {
    return this.#caller.limits();
  }

  supports(method: AccessMethod, options?: { readonly isHistory?: boolean }): boolean {
    return this.#caller.supports(method, options);
  }

  delayMs(method: UnaryMethod, options?: { readonly isHistory?: boolean }): number {
    return this.#caller.delayMs(method, options);
  }

  getNetworkParameters(options?: CallOptions): Promise<{ readonly chainId: string }> {
    const method = 'GetNetworkParameters';
    return this.#caller.unary(method, {}, (m) => decodeNetworkParameters(this.#stubs[method], m), options);
  }

  getNodeVersionInfo(options?: CallOptions): Promise<NodeVersionInfo> {
    const method = 'GetNodeVersionInfo';
    return this.#caller.unary(method, {}, (m) => decodeNodeVersionInfo(this.#stubs[method], m), options);
  }

  getLatestBlockHeader(sealed: boolean, options?: CallOptions): Promise<BlockHeader> {
    const method = 'GetLatestBlockHeader';
    const decode = (message: Buffer): BlockHeader => {
      const header = decodeBlockHeader(this.#stubs[method], message);
      if (!sealed) this.#events.onHead?.(header.height);
      return header;
    };
    return this.#caller.unary(method, { is_sealed: sealed }, decode, options);
  }

  getBlockByHeight(height: number, options?: CallOptions): Promise<ReceivedBlock> {
    const decode = (message: Buffer): ReceivedBlock => {
      const received = decodeBlockResponse(message, this.#proveBlock);
      if (received.block.height !== height) {
        throw new WireError(`asked for height ${height}, got ${received.block.height}`);
      }
      return received;
    };
    const request = { height, full_block_response: this.#proveBlock !== undefined };
    return this.#caller.unary('GetBlockByHeight', request, decode, options);
  }

  getCollectionTransactionIds(id: Identifier, options?: CallOptions): Promise<readonly Identifier[]> {
    return this.#caller.unary(
      'GetCollectionByID',
      { id: identifierBytes(id) },
      decodeCollectionResponse,
      options,
    );
  }

  getFullCollection(id: Identifier, options?: CallOptions): Promise<readonly Uint8Array[]> {
    return this.#caller.unary(
      'GetFullCollectionByID',
      { id: identifierBytes(id) },
      decodeFullCollectionResponse,
      options,
    );
  }

  getTransaction(id: Identifier, options?: CallOptions): Promise<Uint8Array> {
    return this.#caller.unary(
      'GetTransaction',
      { id: identifierBytes(id) },
      decodeTransactionResponse,
      options,
    );
  }

  getProtocolStateSnapshot(height: number, options?: CallOptions): Promise<Uint8Array> {
    const method = 'GetProtocolStateSnapshotByHeight';
    return this.#caller.unary(
      method,
      { block_height: height },
      (m) => decodeProtocolStateSnapshot(this.#stubs[method], m),
      options,
    );
  }

  getCommitteeEvidence(height: number, options?: CallOptions): Promise<ReceivedEvidence> {
    const method = 'GetCommitteeEvidence';
    return this.#caller.unary(
      method,
      { height },
      (m) => decodeCommitteeEvidence(this.#stubs[method], m),
      options,
    );
  }

  subscribeBlocks(startHeight: number, options: StreamOptions): AsyncIterable<ReceivedBlock> {
    return this.#caller.stream(
      {
        method: 'SubscribeBlocksFromStartHeight',
        request: {
          start_block_height: startHeight,
          block_status: 'BLOCK_FINALIZED',
          full_block_response: this.#proveBlock !== undefined,
        },
        decode: (message) => ({
          block: decodeSubscribeBlocksResponse(message, this.#proveBlock),
          status: 'finalized',
        }),
      },
      options,
    );
  }

  subscribeBlockDigests(options: StreamOptions & { readonly sealed: boolean }): AsyncIterable<BlockDigest> {
    const method = 'SubscribeBlockDigestsFromLatest';
    return this.#caller.stream(
      {
        method,
        request: { block_status: options.sealed ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED' },
        decode: (message) => {
          const digest = decodeBlockDigest(this.#stubs[method], message);
          if (!options.sealed) this.#events.onHead?.(digest.height);
          return digest;
        },
      },
      options,
    );
  }

  subscribeExecutionData(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData> {
    // CCF: the node passes events through instead of transcoding each of them, and we skip them anyway.
    const request = { start_block_height: startHeight, event_encoding_version: 'CCF_V0' };
    const deprecated: StreamQuestion<BlockExecutionData> = {
      method: 'SubscribeExecutionData',
      request,
      decode: decodeExecutionDataResponse,
    };
    const current: StreamQuestion<BlockExecutionData> = {
      method: 'SubscribeExecutionDataFromStartBlockHeight',
      request,
      decode: decodeExecutionDataResponse,
      otherwise: deprecated,
    };
    const asksDeprecated = !this.supports(current.method) && this.supports(deprecated.method);
    return this.#caller.stream(asksDeprecated ? deprecated : current, options);
  }

  subscribeIndexedBlocks(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData> {
    return oneByOne(
      this.#caller.stream(
        {
          method: 'SubscribeIndexedBlocks',
          request: { start_height: startHeight },
          decode: decodeIndexedBlocksResponse,
        },
        options,
      ),
    );
  }

  close(): void {
    this.#caller.close();
  }
}

/** The items of messages with several items. The next message is read after the last item of the current one. */
async function* oneByOne<T>(messages: AsyncIterable<readonly T[]>): AsyncGenerator<T, undefined> {
  for await (const items of messages) yield* items;
  return undefined;
}
