import type { BlockExecutionData, BlockStatus, FinalizedBlock, Identifier } from '../flow/index.js';
import type { endpointStates } from '../observability/index.js';
import type { StateParts } from '../proof/index.js';

/** The unary methods we call; also the label of metrics, limiters and errors. */
export const unaryMethods = [
  'GetNetworkParameters',
  'GetNodeVersionInfo',
  'GetLatestBlockHeader',
  'GetBlockByHeight',
  'GetCollectionByID',
  'GetFullCollectionByID',
  'GetTransaction',
  'GetProtocolStateSnapshotByHeight',
  /** A method of our own `IndexAPI`, which a peer serves. */
  'GetCommitteeEvidence',
] as const;
export type UnaryMethod = (typeof unaryMethods)[number];

/** The streams we open; also the label of metrics and errors. */
export const streamMethods = [
  'SubscribeBlocksFromStartHeight',
  'SubscribeBlockDigestsFromLatest',
  'SubscribeExecutionDataFromStartBlockHeight',
  'SubscribeExecutionData',
  /** A method of our own `IndexAPI`, which a peer serves. */
  'SubscribeIndexedBlocks',
] as const;
export type StreamMethod = (typeof streamMethods)[number];

export type AccessMethod = UnaryMethod | StreamMethod;

/** `history`: calls wait behind all others to the node, and streams make way for all others: they use what is left. */
export type Rank = 'live' | 'history';

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Default: the pool's `timeoutMs`. Every call has a deadline. */
  readonly timeoutMs?: number;
}

export interface StreamOptions {
  readonly signal: AbortSignal;
}

export interface ReceivedBlock {
  readonly block: FinalizedBlock;
  readonly status: BlockStatus;
}

export interface BlockDigest {
  readonly id: Identifier;
  readonly height: number;
}

/** The part of a block header that identifies the node's chain and its head. */
export interface BlockHeader extends BlockDigest {
  readonly parentId: Identifier;
  /** Empty when unknown. */
  readonly chainId: string;
  /** Milliseconds since the Unix epoch; `undefined` when unknown. */
  readonly timestampMs: number | undefined;
}

export interface NodeVersionInfo {
  readonly semver: string;
  /** Hex; empty when unknown. */
  readonly sporkId: string;
  readonly sporkRootHeight: number;
  /** The lowest height that this node serves. */
  readonly nodeRootHeight: number;
}

/** The committee that signs from a block on, as another indexer keeps it: each part as RLP, linked by hash. */
export interface ReceivedEvidence extends BlockDigest, StateParts {}

/** `set_aside`: penalized, asked last; `unknown` (not identified yet) and `foreign` are not asked at all. */
export type NodeHealth = (typeof endpointStates)[number];

export interface BlockSource {
  readonly name: string;
  readonly method: AccessMethod;
}

/** One access node: typed calls over one channel. It retries nothing; the caller decides. */
export interface AccessNode {
  /** `host:port`: stable, the label of metrics and logs. */
  readonly name: string;
  /** The worse of the node's health and that of this call. */
  healthOf(method: AccessMethod): NodeHealth;
  /** How long a call is expected to take; 0 while unknown. Absent: it does not matter. */
  readonly latencyMs?: number;
  /**
   * True while this is the call to use. False for five minutes after the node answered UNIMPLEMENTED; for streams of
   * blocks and heads, one minute after it refused any stream for lack of streams, or accepted no more connections; and
   * while the call is penalized and its equivalent has not failed since. Equivalents: block stream and block by height,
   * head stream and latest header, full collection and light one, the two execution-data streams.
   */
  supports(method: AccessMethod): boolean;
  /**
   * Milliseconds until a call of this method may be sent: 0 = now. Positive while a configured rate or a rate limit
   * that the node answered holds it back. A call made earlier is queued until then.
   */
  delayMs(method: UnaryMethod): number;

  getNetworkParameters(options?: CallOptions): Promise<{ readonly chainId: string }>;
  getNodeVersionInfo(options?: CallOptions): Promise<NodeVersionInfo>;
  getLatestBlockHeader(sealed: boolean, options?: CallOptions): Promise<BlockHeader>;
  /** An answer for another height is `malformed`, a block that its id refutes `forged`. */
  getBlockByHeight(height: number, options?: CallOptions): Promise<ReceivedBlock>;
  /** Transaction ids of a light collection, in order, for nodes without `GetFullCollectionByID`. */
  getCollectionTransactionIds(id: Identifier, options?: CallOptions): Promise<readonly Identifier[]>;
  /** Wire bytes of the transactions, in order. Nothing is verified here. */
  getFullCollection(id: Identifier, options?: CallOptions): Promise<readonly Uint8Array[]>;
  getTransaction(id: Identifier, options?: CallOptions): Promise<Uint8Array>;
  /** The protocol state at a block, as JSON of some megabytes. Nothing is verified here. */
  getProtocolStateSnapshot(height: number, options?: CallOptions): Promise<Uint8Array>;
  /** A peer's evidence of who signs, for its newest such block at or below the height. Nothing is verified here. */
  getCommitteeEvidence(height: number, options?: CallOptions): Promise<ReceivedEvidence>;

  /**
   * Streams: one item per height, ascending, gap-free if the node keeps its promise (the consumer checks). Nothing is
   * taken from the channel beyond what the iterator requests. When the node grants few streams, those of blocks and
   * heads end without an error if execution data gets none. Leaving the loop, or the signal, cancels the call. The
   * iterator throws `UpstreamError` when the stream fails and returns when the node ends it.
   */
  subscribeBlocks(startHeight: number, options: StreamOptions): AsyncIterable<ReceivedBlock>;
  subscribeBlockDigests(options: StreamOptions & { readonly sealed: boolean }): AsyncIterable<BlockDigest>;
  /** By the deprecated `SubscribeExecutionData` while the node supports only that one. */
  subscribeExecutionData(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData>;
  /** The collections of each block, as another indexer has them stored. */
  subscribeIndexedBlocks(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData>;
}

/** What a source may report about a node's call; the pool derives the order of asking from it. */
export type NodeFault =
  /**
   * The node sent wrong data, such as bytes that do not hash to the requested id, or a block off the chain: counts
   * against the node.
   */
  | 'lied'
  /** The call is answered with errors or nonsense: counts against this call alone. */
  | 'failing'
  /**
   * No answer arrived in time, or the stream stalled while the head moved: counts against this call alone, and at once.
   */
  | 'stale';

/** All configured nodes of the network and, behind them, the historic nodes of earlier sporks. */
export interface AccessNodes {
  /** Nodes that serve the live head, best first for this call; penalized ones last; foreign ones never. */
  live(method?: AccessMethod): readonly AccessNode[];
  /**
   * Nodes that may serve this height, best first for this call; penalized ones last, but never left out while nothing
   * better remains. A height below the live nodes' root gets the historic nodes of its spork. Empty while none of them
   * has identified itself yet (historic nodes are contacted when first wanted): ask again after a pause.
   */
  forHeight(height: number, method?: AccessMethod): readonly AccessNode[];
  /** Like `forHeight`, but for the execution-data nodes, best first for their stream. */
  forExecutionData(height: number): readonly AccessNode[];
  /** Other indexers of the chain, best first for their stream, whatever heights they have indexed. */
  peers(): readonly AccessNode[];
  /** Why no peer is usable, by peer; `undefined` while one is. */
  whyNoPeer(): string | undefined;
  /**
   * This call returned the requested data, and it was right: clears the record of the call and of the node. A penalty for
   * a lie still runs its full time: one good answer does not undo a lie.
   */
  succeeded(node: AccessNode, method: AccessMethod): void;
  /**
   * Counts against the call, and a lie against the node as well: it is asked after the others for 10 s. From the second
   * failure in a row, and at once for the other faults, the call (or the liar) is penalized (`set_aside`), for 10 s
   * doubling to 5 min.
   */
  report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void;
}
