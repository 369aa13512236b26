import type { AccessMethod, AccessNode, Giver, TroubleKind } from '../access/index.js';
import type { FinalizedBlock, Identifier, VerifiedCollection } from '../flow/index.js';

/** Where a collection came from; the label of metrics. */
export type Source = 'requester' | 'edi';

/** One collection as a source hands it in: already verified against its id. */
export interface ReceivedCollection {
  readonly collection: VerifiedCollection;
  readonly source: Source;
  /** Monotonic milliseconds at which its bytes were in hand. */
  readonly receivedAtMs: number;
}

/** How a collection is asked for: whole, or the light one and then its transactions. */
export type CollectionWay = 'GetFullCollectionByID' | 'GetCollectionByID';

/** Who asks for what the queue says is missing. */
export interface CollectionRequests {
  /** Asks for what this height lacks. What is asked for already is not asked for twice. */
  request(height: number): void;
  /** The height lacks none of these any more: calls for what no other height lacks are cancelled. */
  cancel(height: number, ids: readonly Identifier[]): void;
  /** What was tried for an id that is still wanted; `undefined` when nothing is known of it. */
  trail(id: Identifier): RequestTrail | undefined;
  /** Nodes whose rate limit holds calls for this height back, and until when. */
  heldBack(height: number): readonly HeldBackNode[];
}

/** A node that is not asked because its rate limit is used up. */
export interface HeldBackNode {
  readonly node: string;
  /** Monotonic milliseconds. */
  readonly untilMs: number;
}

/** The history of one wanted id, for "why is it not here". */
export interface RequestTrail {
  readonly attempts: number;
  readonly lastNode: string | undefined;
  readonly lastError: string | undefined;
  /** Wall-clock milliseconds of the last call. */
  readonly lastAskedAt?: number | undefined;
  /** Calls that were answered with "no such collection", or "not yet". */
  readonly notFound: number;
  /** A call for it is under way. */
  readonly isUnderWay: boolean;
  /** Monotonic milliseconds at which the call under way left; `undefined` while none is. */
  readonly askedAtMs?: number | undefined;
  /** By which the last call went. */
  readonly lastMethod?: AccessMethod | undefined;
  /** Nodes that did not give it, by name, in the order in which they first did not. */
  readonly failures: ReadonlyMap<string, NodeFailures>;
}

/** What came of asking one node for one collection. */
export interface NodeFailures {
  readonly count: number;
  /** The call that failed last, and how. */
  readonly method: AccessMethod;
  readonly kind: TroubleKind;
  readonly lastError: string;
  /** Wall-clock milliseconds of the call that failed last. */
  readonly lastAt: number;
  /** Monotonic milliseconds of the first failure. */
  readonly sinceMs: number;
}

/** What came of asking the nodes again for a block. */
export interface BlockVerdict {
  /** `gone`: the block is no longer worked on. `alone`: nobody but the giver could be asked. */
  readonly kind: 'exchanged' | 'upheld' | 'alone' | 'gone';
  /** The node that gave the guarantees that are worked on now. */
  readonly giver: string;
  /** Other nodes that say the same. */
  readonly confirmedBy: number;
}

/** What a node gave when it was asked for its block of a height. */
export interface BlockAnswer {
  readonly node: AccessNode;
  readonly method: AccessMethod;
  readonly block: FinalizedBlock;
}

/** Who can ask the nodes for their block of a height. */
export interface BlockAsker {
  /** Every node that serves the height. Expected errors: the signal's abort reason. */
  ask(height: number, signal: AbortSignal): Promise<readonly BlockAnswer[]>;
  /** It is proven that a node forges what it gives by this call. */
  distrust(giver: Giver): void;
}

/** Asks the nodes again for a block, and replaces its guarantees where others are right. */
export interface BlockReviewer {
  /** Expected errors: the signal's abort reason. */
  review(height: number, signal: AbortSignal): Promise<BlockVerdict>;
}

/** What the sources need to know of the window they work in. */
export interface BlockWindow {
  latestIndexedHeight(): number;
  /** The highest height that may be worked on now: min(watermark + K, head). */
  upperBound(): number;
  /** The finalized head, or the stop height where that is lower. */
  headHeight(): number;
  /** The linked block of a height that was handed out and is not durable yet. */
  blockAt(height: number): FinalizedBlock | undefined;
  isIndexed(height: number): boolean;
  /** True when a height's bytes may be taken now: within the byte budget, or the lowest missing height. */
  admits(height: number, bytes: number): boolean;
  /** Resolves at the next change of any of the above. Expected errors: the signal's abort reason. */
  changed(signal: AbortSignal): Promise<void>;
}

/** What the requester needs to know of the execution-data stream in order to hold a request back for it. */
export interface ExecutionDataForecast {
  /** True while the stream is fresh and, at its present pace, delivers this height within so many milliseconds. */
  expects(height: number, withinMs: number): boolean;
}

/** Where sources deliver. */
export interface CollectionSink {
  /** One verified collection, asked for by id. */
  onCollection(received: ReceivedCollection): void;
  /**
   * All collections of a block in guarantee order (execution data). Resolves at once; the block is durable later.
   */
  onReceivedCollectionsForBlock(height: number, collections: readonly ReceivedCollection[]): void;
  /**
   * A node's execution data does not match the guarantees of the block. One of the two is a lie, and which one is open until
   * the height is complete.
   */
  onContradiction(height: number, node: AccessNode, detail: string): void;
}

/** The durable end of the line. */
export interface BlockIndexer {
  latestIndexedHeight(): number;
  /** True when the height is durable: at or below the watermark, or stored above a gap. */
  isIndexed(height: number): boolean;
  /**
   * The chain has this block at a height that is durable: the watermark passes no block of an earlier process before.
   * Resolves once it has passed this one; `undefined` when there is nothing to wait for. Rejects as
   * `onReceivedCollectionsForBlock`, or because another block is durable there.
   */
  confirm(block: FinalizedBlock): Promise<void> | undefined;
  /**
   * Idempotent, and checked before and again after the height's turn. Resolves once the batch that holds the block is
   * on disk; `false` when the height was indexed already. Rejects only for storage failure, which stops the process.
   */
  onReceivedCollectionsForBlock(
    block: FinalizedBlock,
    collections: readonly VerifiedCollection[],
  ): Promise<boolean>;
}
