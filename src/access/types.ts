import type { BlockExecutionData, BlockStatus, FinalizedBlock, Identifier } from '../flow/index.js';
import type { endpointStates } from '../observability/index.js';

/** The unary methods we call; also the label of metrics, limiters and errors. */
export type UnaryMethod =
  | 'GetNetworkParameters'
  | 'GetNodeVersionInfo'
  | 'GetLatestBlockHeader'
  | 'GetBlockByHeight'
  | 'GetCollectionByID'
  | 'GetFullCollectionByID'
  | 'GetTransaction';

/** The streams we open; also the label of metrics and errors. */
export type StreamMethod =
  | 'SubscribeBlocksFromStartHeight'
  | 'SubscribeBlockDigestsFromLatest'
  | 'SubscribeExecutionDataFromStartBlockHeight'
  | 'SubscribeExecutionData';

/** Every method that we call. */
export type AccessMethod = UnaryMethod | StreamMethod;

/** What a caller may say of one unary call. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Default: the pool's `timeoutMs`. Every call has a deadline. */
  readonly timeoutMs?: number;
  /** For history: behind all other calls to the node, with what they leave of its rate. */
  readonly isHistory?: boolean;
}

/** What a caller may say of a stream. */
export interface StreamOptions {
  readonly signal: AbortSignal;
  /** For history: it makes way for all other streams of the node. */
  readonly isHistory?: boolean;
}

/** A block, and what the node says of its place in the chain. */
export interface ReceivedBlock {
  readonly block: FinalizedBlock;
  readonly status: BlockStatus;
}

/** As much of a header as tells where a node stands. */
export interface BlockHeader {
  readonly id: Identifier;
  readonly parentId: Identifier;
  readonly height: number;
  /** Empty when the node does not tell. */
  readonly chainId: string;
  /** Since the Unix epoch; `undefined` when the node does not tell. */
  readonly timestampMs: number | undefined;
}

/** One message of a digest stream. */
export interface BlockDigest {
  readonly id: Identifier;
  readonly height: number;
}

/** What a node says of itself. */
export interface NodeVersionInfo {
  readonly semver: string;
  /** Hex; empty when the node does not tell. */
  readonly sporkId: string;
  readonly sporkRootHeight: number;
  /** The lowest height this very node serves. */
  readonly nodeRootHeight: number;
}

/** `set_aside`: penalized, asked last; `unknown` (it has not said who it is) and `foreign` are not asked at all. */
export type NodeHealth = (typeof endpointStates)[number];

/** Who gave a block, and in answer to which call. */
export interface Giver {
  readonly name: string;
  readonly method: AccessMethod;
}

/** One access node: typed calls over one channel. It retries nothing; whoever calls decides. */
export interface AccessNode {
  /** `host:port`: stable, the label of metrics and logs. */
  readonly name: string;
  readonly health: NodeHealth;
  /** The node's health, or that of this one call where that is worse. */
  healthOf(method: AccessMethod): NodeHealth;
  /**
   * True while this is the way to ask. False for five minutes after the node answered UNIMPLEMENTED; for streams of
   * blocks and heads, one minute after it refused any stream for want of streams; and while the call rests, because
   * it failed twice in a row, and the other call that tells the same does not: block stream and block by height, head
   * stream and latest header, full collection and light one, the two execution-data streams.
   */
  supports(method: AccessMethod, options?: { readonly isHistory?: boolean }): boolean;
  /**
   * Milliseconds until a call of this method may leave: 0 = now. Positive while a configured rate or an answered rate
   * limit holds it back. A call made earlier waits by itself.
   */
  delayMs(method: UnaryMethod, options?: { readonly isHistory?: boolean }): number;

  getNetworkParameters(options?: CallOptions): Promise<{ readonly chainId: string }>;
  getNodeVersionInfo(options?: CallOptions): Promise<NodeVersionInfo>;
  getLatestBlockHeader(sealed: boolean, options?: CallOptions): Promise<BlockHeader>;
  /** Light form. An answer for another height is `malformed`. */
  getBlockByHeight(height: number, options?: CallOptions): Promise<ReceivedBlock>;
  /** Transaction ids of a light collection, in order, for nodes without `GetFullCollectionByID`. */
  getCollectionTransactionIds(id: Identifier, options?: CallOptions): Promise<readonly Identifier[]>;
  /** Wire bytes of the transactions, in order. Nothing is verified here. */
  getFullCollection(id: Identifier, options?: CallOptions): Promise<readonly Uint8Array[]>;
  getTransaction(id: Identifier, options?: CallOptions): Promise<Uint8Array>;

  /**
   * Streams: one item per height, ascending, gap-free as far as the node keeps its word (the consumer checks). Nothing
   * more is taken from the channel than the iterator asks for. Where the node grants few streams, those of blocks and heads
   * end in good order when execution data gets none. Leaving the loop, or the signal, cancels the call. The
   * iterator throws `UpstreamError` when the stream fails and returns when the node ends it.
   */
  subscribeBlocks(startHeight: number, options: StreamOptions): AsyncIterable<ReceivedBlock>;
  subscribeBlockDigests(options: {
    readonly signal: AbortSignal;
    readonly sealed: boolean;
  }): AsyncIterable<BlockDigest>;
  /** Falls back to the deprecated `SubscribeExecutionData` on nodes that know only that one. */
  subscribeExecutionData(startHeight: number, options: StreamOptions): AsyncIterable<BlockExecutionData>;
}

/** What every source of data may say of a node's call; the pool turns it into an order of asking. */
export type NodeFault =
  /** It gave bytes that do not hash to what was asked, a block off the chain, and the like: held against the node. */
  | 'lied'
  /** The call is answered with errors or nonsense: held against this call alone. */
  | 'failing'
  /** No answer came in time, or the stream stood still while the head moved: this call alone, and as bad as two failures. */
  | 'stale';

/** All configured nodes of the network and, behind them, the historic nodes of earlier sporks. */
export interface AccessNodes {
  /** Nodes that serve the live head, best first for this call; penalized ones last; foreign ones never. */
  live(method?: AccessMethod): readonly AccessNode[];
  /**
   * Nodes that may serve this height, best first for this call; penalized ones last, never "not at all" while no
   * better one remains. A height below the live nodes' root gets the historic nodes of its spork. Empty while none of
   * them has said yet who it is (historic nodes are first reached when first wanted): ask again after a pause.
   */
  forHeight(height: number, method?: AccessMethod): readonly AccessNode[];
  /** As `forHeight`, but the nodes named for execution data, best first for its stream. */
  forExecutionData(height: number): readonly AccessNode[];
  /**
   * The node gave what was asked by this call, and it was right: the record of the call is clean again, and so is the
   * node's. But a node penalized for a lie serves its time first: answering one kind of question does not take back a
   * lie about another.
   */
  succeeded(node: AccessNode, method: AccessMethod): void;
  /**
   * Counts against the call, and a lie against the node as well: it is asked after the others for 10 s. From the
   * third failure in a row, and at once for the other faults, the call (or the liar) is penalized (`set_aside`), for
   * 10 s doubling to 5 min.
   */
  report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void;
}
