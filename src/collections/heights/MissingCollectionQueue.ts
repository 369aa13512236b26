import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { ReceivedCollection, Source } from '../ports.js';

/** Which source gave the last missing collection of a height; `none` for a block without collections. */
export type CompletionSource = Source | 'none';

/** A height that was handed out and is not durable yet. */
export interface QueuedHeight {
  readonly height: number;
  readonly block: FinalizedBlock;
  /** Monotonic milliseconds at which the height was handed out; a replaced block keeps it. */
  readonly queuedAtMs: number;
  /** The job's own completion, kept here for whoever makes the height durable. The queue never calls it. */
  readonly done: () => void;
  /** Distinct ids that are still missing; 0 means complete. */
  readonly missingCount: number;
  /** Source of the latest collection taken. Once the height is complete: of the last missing one. */
  readonly source: CompletionSource;
  /**
   * One slot per guarantee, in guarantee order. A slot is empty while its collection is missing, and the second and
   * later slots of an id that the block lists more than once stay empty for good.
   */
  readonly received: readonly (ReceivedCollection | undefined)[];
  /** All collections in guarantee order, repeated ids repeated. Only for a complete height. */
  collections(): VerifiedCollection[];
}

/** What became of one delivered collection. */
export interface Receipt {
  /** `duplicate`: received or indexed before. `unsolicited`: no height of the window ever wanted it. */
  readonly decision: 'taken' | 'duplicate' | 'unsolicited';
  /** Heights that wanted it, in ascending order. */
  readonly takers: readonly QueuedHeight[];
  /** Those of the takers that it completed. */
  readonly completed: readonly QueuedHeight[];
}

export interface MissingCollectionQueueOptions {
  /** Heights that may lack collections at the same time: the size of the window (K). */
  readonly maxHeights: number;
}

/** One id wanted by one height. Other heights that want the same id hang on `next`. */
interface Want {
  readonly entry: Entry;
  readonly slot: number;
  next: Want | undefined;
}

class Entry implements QueuedHeight {
  readonly height: number;
  readonly block: FinalizedBlock;
  readonly queuedAtMs: number;
  readonly done: () => void;
  readonly received: (ReceivedCollection | undefined)[];
  missingCount = 0;
  source: CompletionSource = 'none';
  /** True when the block lists an id more than once. */
  repeats = false;

  constructor(block: FinalizedBlock, queuedAtMs: number, done: () => void) {
    this.height = block.height;
    this.block = block;
    this.queuedAtMs = queuedAtMs;
    this.done = done;
    this.received = new Array<ReceivedCollection | undefined>(block.collectionIds.length).fill(undefined);
  }

  take(slot: number, received: ReceivedCollection): void {
    this.received[slot] = received;
    this.missingCount -= 1;
    this.source = received.source;
  }

  collections(): VerifiedCollection[] {
    if (this.missingCount > 0) throw new Error(`height ${this.height} still lacks collections`);
    const collections: VerifiedCollection[] = [];
    const repeated = this.repeats ? this.byId() : undefined;
    for (const [slot, id] of this.block.collectionIds.entries()) {
      const received = this.received[slot] ?? repeated?.get(id);
      if (received === undefined) throw new Error(`complete height ${this.height} has an empty slot ${slot}`);
      collections.push(received.collection);
    }
    return collections;
  }

  byId(): Map<Identifier, ReceivedCollection> {
    const byId = new Map<Identifier, ReceivedCollection>();
    for (const received of this.received) {
      if (received !== undefined) byId.set(received.collection.id, received);
    }
    return byId;
  }
}

const DUPLICATE: Receipt = { decision: 'duplicate', takers: [], completed: [] };
const UNSOLICITED: Receipt = { decision: 'unsolicited', takers: [], completed: [] };

/**
 * MCQ: which heights lack which collections, what has come for them, and which id is wanted by whom. Pure state: it
 * never indexes, and never calls anybody (docs/architecture.md, "The parts").
 *
 * A height stays until `onIndexedForBlock`, complete or not. Bounds: at most `maxHeights` incomplete heights and twice
 * as many heights in all, because a batch may move the window before the heights it made durable have left; the ids
 * of the last `maxHeights` durable heights with collections, by which a late delivery is told from an unsolicited one.
 */
export class MissingCollectionQueue {
  readonly #maxHeights: number;
  readonly #entries = new Map<number, Entry>();
  readonly #wants = new Map<Identifier, Want>();
  #incompleteHeights = 0;
  /** No incomplete height is below it. */
  #lowestHint = 0;
  /** No height at all is below it. */
  #lowestHeldHint = 0;
  /** Ring of the ids of the heights that left last. */
  readonly #indexedIds: (readonly Identifier[])[] = [];
  #nextIndexedIds = 0;

  constructor(options: MissingCollectionQueueOptions) {
    this.#maxHeights = options.maxHeights;
  }

  /** Heights held, complete ones included. */
  get size(): number {
    return this.#entries.size;
  }

  /** Heights that lack at least one collection. */
  get incompleteHeights(): number {
    return this.#incompleteHeights;
  }

  /** Distinct ids that are missing. */
  get missingCollections(): number {
    return this.#wants.size;
  }

  get(height: number): QueuedHeight | undefined {
    return this.#entries.get(height);
  }

  /**
   * The lowest height here whose block is this one, or names this collection, received or not. Looks through all of them:
   * off the hot path only.
   */
  naming(id: Identifier): { readonly kind: 'block' | 'collection'; readonly height: number } | undefined {
    let lowest: Entry | undefined;
    for (const entry of this.#entries.values()) {
      const names = entry.block.id === id || entry.block.collectionIds.includes(id);
      if (names && entry.height < (lowest?.height ?? Infinity)) lowest = entry;
    }
    return lowest && { kind: lowest.block.id === id ? 'block' : 'collection', height: lowest.height };
  }

  /** Every height that lacks a collection, in no particular order. */
  *incomplete(): Generator<QueuedHeight> {
    for (const entry of this.#entries.values()) {
      if (entry.missingCount > 0) yield entry;
    }
  }

  /** The lowest height that lacks a collection. */
  lowest(): number | undefined {
    if (this.#incompleteHeights === 0) return undefined;
    while ((this.#entries.get(this.#lowestHint)?.missingCount ?? 0) === 0) this.#lowestHint += 1;
    return this.#lowestHint;
  }

  /**
   * The lowest height that is not durable, while it lacks a collection: what the watermark waits for. `undefined` while
   * that height is complete: then its commit is what is waited for, whatever heights above it lack.
   */
  holdingUp(): number | undefined {
    if (this.#entries.size === 0) return undefined;
    while (!this.#entries.has(this.#lowestHeldHint)) this.#lowestHeldHint += 1;
    const lowest = this.#entries.get(this.#lowestHeldHint);
    return lowest === undefined || lowest.missingCount === 0 ? undefined : lowest.height;
  }

  /** The distinct ids that a height lacks, in guarantee order; none for a height that is complete or not here. */
  missingIds(height: number): Identifier[] {
    const entry = this.#entries.get(height);
    if (entry === undefined || entry.missingCount === 0) return [];
    const ids = entry.block.collectionIds;
    if (!entry.repeats) return ids.filter((_, slot) => entry.received[slot] === undefined);
    const received = entry.byId();
    return [...new Set(ids)].filter((id) => !received.has(id));
  }

  /** The heights that lack this id, in ascending order. */
  heightsFor(id: Identifier): number[] {
    const heights: number[] = [];
    for (let want = this.#wants.get(id); want !== undefined; want = want.next)
      heights.push(want.entry.height);
    return heights.sort((a, b) => a - b);
  }

  /**
   * Takes a height in and registers its ids as missing. A block without collections is complete at once. A height that
   * is here already, or one too many, is a bug of the caller and throws.
   */
  enqueueMissingCollections(block: FinalizedBlock, queuedAtMs: number, done: () => void): QueuedHeight {
    if (this.#entries.has(block.height)) throw new Error(`height ${block.height} was queued twice`);
    if (this.#incompleteHeights >= this.#maxHeights || this.#entries.size >= 2 * this.#maxHeights) {
      throw new Error(`height ${block.height} is one too many: the window holds ${this.#maxHeights} heights`);
    }
    return this.#register(new Entry(block, queuedAtMs, done));
  }

  /**
   * Puts another block in the place of an incomplete one and keeps what was received and is still wanted. `undefined`
   * when the height is not here or complete already: nothing was changed then.
   */
  replaceBlock(block: FinalizedBlock): QueuedHeight | undefined {
    const old = this.#entries.get(block.height);
    if (old === undefined || old.missingCount === 0) return undefined;
    for (const id of old.block.collectionIds) this.#removeWant(id, old);
    this.#incompleteHeights -= 1;
    return this.#register(new Entry(block, old.queuedAtMs, old.done), old);
  }

  /** One collection by id, for every height that lacks it. */
  onReceivedCollection(received: ReceivedCollection): Receipt {
    const id = received.collection.id;
    const first = this.#wants.get(id);
    if (first === undefined) return this.#knows(id) ? DUPLICATE : UNSOLICITED;
    this.#wants.delete(id);
    const takers: Entry[] = [];
    for (let want: Want | undefined = first; want !== undefined; want = want.next) {
      this.#take(want.entry, want.slot, received);
      takers.push(want.entry);
    }
    if (takers.length > 1) takers.sort((a, b) => a.height - b.height);
    return { decision: 'taken', takers, completed: takers.filter((entry) => entry.missingCount === 0) };
  }

  /**
   * All collections of one block, in guarantee order, for this height alone: an id that other heights lack as well
   * stays wanted by them. Answers which slots were still missing. The caller has compared the ids.
   */
  onReceivedCollectionsForBlock(
    height: number,
    collections: readonly ReceivedCollection[],
  ): ReceivedCollection[] {
    const entry = this.#entries.get(height);
    if (entry === undefined || entry.missingCount === 0) return [];
    const taken: ReceivedCollection[] = [];
    for (const [slot, received] of collections.entries()) {
      if (!this.#removeWant(received.collection.id, entry)) continue;
      this.#take(entry, slot, received);
      taken.push(received);
    }
    return taken;
  }

  /** The height is durable: everything kept for it goes. A height that is incomplete or not here is a bug and throws. */
  onIndexedForBlock(height: number): void {
    const entry = this.#entries.get(height);
    if (entry?.missingCount !== 0) throw new Error(`height ${height} was indexed before it was complete`);
    this.#entries.delete(height);
    if (entry.block.collectionIds.length === 0) return;
    this.#indexedIds[this.#nextIndexedIds] = entry.block.collectionIds;
    this.#nextIndexedIds = (this.#nextIndexedIds + 1) % this.#maxHeights;
  }

  /** Registers the ids of a new entry that `old`, which it replaces, has not received. */
  #register(entry: Entry, old?: Entry): Entry {
    const carried = old?.byId();
    for (const [slot, id] of entry.block.collectionIds.entries()) {
      const received = carried?.get(id);
      if (old !== undefined && received !== undefined) {
        if (entry.block.collectionIds.indexOf(id) === slot) entry.received[slot] = received;
        else entry.repeats = true;
        entry.source = old.source;
        continue;
      }
      const first = this.#wants.get(id);
      if (first?.entry === entry) {
        entry.repeats = true;
        continue;
      }
      this.#wants.set(id, { entry, slot, next: first });
      entry.missingCount += 1;
    }
    this.#lowestHeldHint =
      this.#entries.size === 0 ? entry.height : Math.min(this.#lowestHeldHint, entry.height);
    this.#entries.set(entry.height, entry);
    if (entry.missingCount > 0) {
      this.#lowestHint =
        this.#incompleteHeights === 0 ? entry.height : Math.min(this.#lowestHint, entry.height);
      this.#incompleteHeights += 1;
    }
    return entry;
  }

  #take(entry: Entry, slot: number, received: ReceivedCollection): void {
    entry.take(slot, received);
    if (entry.missingCount === 0) this.#incompleteHeights -= 1;
  }

  /** False when the height does not want the id (any more). */
  #removeWant(id: Identifier, entry: Entry): boolean {
    const first = this.#wants.get(id);
    if (first === undefined) return false;
    if (first.entry === entry) {
      if (first.next === undefined) this.#wants.delete(id);
      else this.#wants.set(id, first.next);
      return true;
    }
    for (let before = first; before.next !== undefined; before = before.next) {
      if (before.next.entry !== entry) continue;
      before.next = before.next.next;
      return true;
    }
    return false;
  }

  /** Off the hot path: a late answer is rare, so nothing is indexed for it. */
  #knows(id: Identifier): boolean {
    for (const entry of this.#entries.values()) {
      if (entry.block.collectionIds.includes(id)) return true;
    }
    return this.#indexedIds.some((ids) => ids.includes(id));
  }
}
