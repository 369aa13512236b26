import type { BlockSource } from '../../access/index.js';
import { isSameBlock, type FinalizedBlock } from '../../flow/index.js';
import { Listeners, unlessAborted } from '../../runtime/index.js';
import type { RangeStore } from '../../storage/index.js';
import { HeightRecord, type HeightStatus } from './HeightRecord.js';

export interface WindowOptions {
  /** K: no height above watermark + K is ever worked on. */
  readonly heights: number;
  /** No height above it is worked on. Default: no limit. */
  readonly stopHeight?: number | undefined;
  /** Bytes of received collections that may wait for their durable commit (`maxInFlightBytes`). */
  readonly limitBytes: number;
}

export interface WindowDependencies {
  /** Owns the watermark, and knows which heights above it are durable. */
  readonly store: Pick<RangeStore, 'latestIndexedHeight' | 'hasHeight'>;
  /** The finalized head; `undefined` until known. */
  finalizedHeight(): number | undefined;
  /** The share of the window that may be used, above 0. Call `moved` after raising it. Default: all of it. */
  readonly share?: () => number;
}

/** A block counts once its child is known: in a narrower window no block would ever become ready. */
const LEAST_NARROWED_HEIGHTS = 2;
/** The most waiters for changes: the two sources, and a few readers. More would be a leak. */
const MAX_WAITERS = 32;

/**
 * The window: how far the index is, how far it may go, the heights in between, and whether there is room. It has one
 * record for each height whose block links, until the height is durable and the watermark has passed it.
 *
 * Code that moves the watermark or the head calls `moved`; code that changes a record or the bytes in hand calls `notify`.
 * It outlives the indexing line, which begins with an empty one.
 */
export class Window {
  /** K. */
  readonly heights: number;
  readonly limitBytes: number;
  readonly stopHeight: number | undefined;
  readonly #dependencies: WindowDependencies;
  readonly #listeners = new Listeners();
  readonly #waiters = new Set<() => void>();
  readonly #records = new Map<number, HeightRecord>();
  #inHand = 0;
  #collecting = 0;
  #bytesInHand = 0;
  /** No height that lacks a collection is below it. */
  #lowestCollecting = 0;

  constructor(options: WindowOptions, dependencies: WindowDependencies) {
    if (!Number.isSafeInteger(options.heights) || options.heights < 1)
      throw new RangeError(`a window has at least one height, not ${options.heights}`);
    this.heights = options.heights;
    this.limitBytes = options.limitBytes;
    this.stopHeight = options.stopHeight;
    this.#dependencies = dependencies;
  }

  /** The watermark: everything up to it is durable. */
  latestIndexedHeight(): number {
    return this.#dependencies.store.latestIndexedHeight();
  }

  /** True when the height is durable: at or below the watermark, or stored above a gap. */
  isIndexed(height: number): boolean {
    return height <= this.latestIndexedHeight() || this.#dependencies.store.hasHeight(height);
  }

  finalizedHeight(): number | undefined {
    return this.#dependencies.finalizedHeight();
  }

  /** The finalized head, or the stop height if lower; `undefined` until the head is known. */
  target(): number | undefined {
    const head = this.finalizedHeight();
    return head === undefined ? undefined : Math.min(head, this.stopHeight ?? head);
  }

  /** Watermark + K: no height above it is ever worked on. */
  limit(): number {
    return this.latestIndexedHeight() + this.heights;
  }

  /** The highest height that may be begun now: min(watermark + K, target). It falls when the share falls. */
  upperBound(): number {
    const { share = () => 1 } = this.#dependencies;
    const narrowed = Math.max(LEAST_NARROWED_HEIGHTS, Math.floor(this.heights * share()));
    return Math.min(this.latestIndexedHeight() + Math.min(this.heights, narrowed), this.target() ?? 0);
  }

  /**
   * Calls the listener whenever the watermark or the head has moved. It must not throw. Returns a function that
   * unsubscribes.
   */
  onMoved(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** The watermark, the head, or the share has moved. */
  moved(): void {
    this.#prune();
    this.#listeners.tell();
    this.notify();
  }

  /**
   * Resolves at the next `notify`. A caller that checks, finds nothing to do, and calls this without awaiting in
   * between misses no change. Expected errors: the signal's abort reason.
   */
  changed(signal: AbortSignal): Promise<void> {
    return unlessAborted(signal, (resolve) => {
      if (this.#waiters.size >= MAX_WAITERS) throw new Error('too many waiters for a change of the window');
      this.#waiters.add(resolve);
      return () => this.#waiters.delete(resolve);
    });
  }

  /** An end of the window, a record, or the bytes in hand changed. */
  notify(): void {
    for (const wake of [...this.#waiters]) wake();
  }

  /** Heights that were handed out and are not durable. */
  get inHand(): number {
    return this.#inHand;
  }

  /** Heights in hand that lack a collection. */
  get collecting(): number {
    return this.#collecting;
  }

  /** Bytes of collections received for heights in hand. */
  get bytesInHand(): number {
    return this.#bytesInHand;
  }

  /** The record of a height whose block is known, handed out or not. */
  at(height: number): HeightRecord | undefined {
    return this.#records.get(height);
  }

  /** The linked block of a height that was handed out and is not durable yet. */
  blockAt(height: number): FinalizedBlock | undefined {
    const record = this.#records.get(height);
    return record?.isInHand === true ? record.block : undefined;
  }

  /** In no particular order. */
  all(): Iterable<HeightRecord> {
    return this.#records.values();
  }

  lowestCollecting(): HeightRecord | undefined {
    if (this.#collecting === 0) return undefined;
    while (this.#records.get(this.#lowestCollecting)?.status !== 'collecting') this.#lowestCollecting += 1;
    return this.#records.get(this.#lowestCollecting);
  }

  /**
   * True when a stream that contradicts the block of this height must be wrong: about its guarantees (`guarantees`), because
   * they are proven, or about which block the height has (`block`), because the next one follows ours.
   */
  isCertain(height: number, of: 'guarantees' | 'block'): boolean {
    const block = this.#records.get(height)?.block;
    if (block === undefined) return false;
    return of === 'guarantees'
      ? block.proof !== undefined
      : this.#records.get(height + 1)?.block.parentId === block.id;
  }

  /**
   * True when a height's bytes may be taken now. The one above the watermark, which holds it up, is always admitted while
   * it lacks something: refusing it would prevent the commit that frees the budget. No other height is admitted beyond the
   * limit: once that one is complete, its commit is under way and frees the budget. All received bytes count.
   */
  admits(height: number, bytes: number): boolean {
    if (this.#bytesInHand + bytes <= this.limitBytes) return true;
    const lowest = this.latestIndexedHeight() + 1;
    return height <= lowest && this.#records.get(lowest)?.status === 'collecting';
  }

  /**
   * Adds a record for a block that links, or returns the existing one. If that holds another block, it was already handed
   * out, and the caller must replace it.
   */
  link(block: FinalizedBlock, blockSource?: BlockSource): HeightRecord {
    let record = this.#records.get(block.height);
    if (record === undefined) {
      record = new HeightRecord(block, blockSource);
      this.#records.set(block.height, record);
    } else if (isSameBlock(record.block, block)) record.blockSource = blockSource;
    return record;
  }

  /** Forgets a block that was not handed out. */
  unlink(height: number): void {
    if (this.#records.get(height)?.status === 'linked') this.#records.delete(height);
  }

  /** Forgets a block that lacks collections, and those received: another block replaces it. */
  drop({ bytes, height }: HeightRecord): void {
    this.#records.delete(height);
    this.#collecting -= 1;
    this.#inHand -= 1;
    this.#bytesInHand -= bytes;
  }

  /** Forgets every record: the line that worked on them has ended. */
  clear(): void {
    this.#records.clear();
    this.#inHand = this.#collecting = this.#bytesInHand = 0;
  }

  /** Adds received bytes to the height; negative when they are released. */
  count(record: HeightRecord, bytes: number): void {
    record.bytes += bytes;
    this.#bytesInHand += bytes;
  }

  /** Moves the height to its next status. A durable one stays only while it waits for the watermark. */
  move(record: HeightRecord, status: HeightStatus): void {
    const { height, isInHand: wasInHand, status: before } = record;
    record.moveTo(status);
    if (before === 'collecting') this.#collecting -= 1;
    if (status === 'collecting') {
      this.#lowestCollecting = this.#collecting === 0 ? height : Math.min(this.#lowestCollecting, height);
      this.#collecting += 1;
    }
    this.#inHand += Number(record.isInHand) - Number(wasInHand);
    if (status !== 'durable') return;
    this.count(record, -record.bytes);
    record.received = new Map();
    record.commit = undefined;
    if (height <= this.latestIndexedHeight()) this.#records.delete(height);
  }

  /** Drops what the watermark has passed. Heights in hand are dropped once they are marked as durable. */
  #prune(): void {
    const watermark = this.latestIndexedHeight();
    // In the order in which they were linked: a replacement block may stay a little longer.
    for (const [height, { isInHand }] of this.#records) {
      if (height > watermark) break;
      if (!isInHand) this.#records.delete(height);
    }
  }
}
