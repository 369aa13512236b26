import type { BlockSource } from '../../access/index.js';
import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import type { ReceivedCollection } from '../ports.js';
import type { HeightRecord } from './HeightRecord.js';
import { WantedCollection } from './WantedCollection.js';
import type { Window } from './Window.js';

/**
 * MCQ: which heights lack which collections, what has arrived for them, and which heights want an id. It is the view of
 * the window by collections, and the only index by id. Pure state: it never indexes, and never calls back
 * (docs/architecture.md, "The parts").
 *
 * A height is in hand from `enqueueMissingCollections` until `onIndexedForBlock`, complete or not. Bounds: at most
 * K incomplete heights and twice as many in hand, because a batch may move the window before its durable
 * heights have left.
 */
export class MissingCollectionQueue {
  readonly #window: Window;
  /** Every id that a height lacks, or that the requester has not released yet. */
  readonly #wanted = new Map<Identifier, WantedCollection>();
  #missingCollections = 0;

  constructor(window: Window) {
    this.#window = window;
  }

  get incompleteHeights(): number {
    return this.#window.collecting;
  }

  get missingCollections(): number {
    return this.#missingCollections;
  }

  /** The record of a height in hand. */
  get(height: number): HeightRecord | undefined {
    const record = this.#window.at(height);
    return record?.isInHand === true ? record : undefined;
  }

  /** The entry of an id that some height lacks, or for which a call is under way. */
  wanted(id: Identifier): WantedCollection | undefined {
    return this.#wanted.get(id);
  }

  /** Every such id, in no particular order. */
  allWanted(): Iterable<WantedCollection> {
    return this.#wanted.values();
  }

  /** The requester is done with an id. */
  letGo(wanted: WantedCollection): void {
    wanted.isAskedFor = false;
    this.#dropIfIdle(wanted);
  }

  /**
   * The lowest height whose block has this id, or guarantees this collection, received or not. Scans all heights: not
   * for the hot path.
   */
  naming(id: Identifier): { readonly kind: 'block' | 'collection'; readonly height: number } | undefined {
    let lowest: HeightRecord | undefined;
    for (const record of this.#window.all()) {
      const names = record.block.id === id || record.block.collectionIds.includes(id);
      if (names && record.height < (lowest?.height ?? Infinity)) lowest = record;
    }
    return lowest && { kind: lowest.block.id === id ? 'block' : 'collection', height: lowest.height };
  }

  lowest(): number | undefined {
    return this.#window.lowestCollecting()?.height;
  }

  /** What a height lacks, each id once, in guarantee order; nothing for a height that is complete or unknown. */
  missing(height: number): readonly WantedCollection[] {
    const record = this.get(height);
    if (record === undefined || record.missingCount === 0) return [];
    const ids = new Set(record.block.collectionIds);
    return [...ids].flatMap((id) => (record.received.has(id) ? [] : (this.#wanted.get(id) ?? [])));
  }

  /**
   * Registers the missing ids of a height. A block without collections is complete at once. Throws for a height that is
   * already in hand or one too many: bugs of the caller.
   */
  enqueueMissingCollections(block: FinalizedBlock, queuedAtMs: number, done: () => void): HeightRecord {
    const { height } = block;
    const record = this.#window.at(height) ?? this.#window.link(block);
    if (record.status !== 'linked') throw new Error(`height ${height} was queued twice`);
    if (record.block !== block)
      throw new Error(`height ${height} was queued with a block other than the linked one`);
    const { collecting, heights, inHand } = this.#window;
    if (collecting >= heights || inHand >= 2 * heights)
      throw new Error(`height ${height} is one too many: the window holds ${heights} heights`);
    record.queuedAtMs = queuedAtMs;
    record.done = done;
    this.#register(record);
    this.#window.move(record, record.missingCount > 0 ? 'collecting' : 'complete');
    return record;
  }

  /**
   * Replaces the block of a height that lacks collections: the height restarts, as the same job. Returns `undefined`, and
   * changes nothing, for any other height.
   */
  replaceBlock(block: FinalizedBlock, blockSource?: BlockSource): HeightRecord | undefined {
    const held = this.get(block.height);
    if (held?.status !== 'collecting') return undefined;
    for (const id of held.block.collectionIds) this.#remove(id, held);
    this.#window.drop(held);
    // Calls that are under way continue.
    held.requests?.askable.clear();
    this.#window.link(block, blockSource).requests = held.requests;
    return this.enqueueMissingCollections(block, held.queuedAtMs, held.done);
  }

  /** One collection by id, for every height that lacks it. Returns those that it completed; `undefined`: none lacks it. */
  onReceivedCollection(received: ReceivedCollection): readonly HeightRecord[] | undefined {
    const wanted = this.#wanted.get(received.collection.id);
    if (wanted?.isWanted !== true) return undefined;
    const takers = wanted.heights.splice(0);
    for (const record of takers) this.#take(record, received);
    this.#missingCollections -= 1;
    this.#dropIfIdle(wanted);
    return takers.filter(({ missingCount }) => missingCount === 0);
  }

  /**
   * All collections of one block, in guarantee order, for this height alone: other heights keep wanting the ids that
   * they lack. Returns how many were still missing. The caller has compared the ids.
   */
  onReceivedCollectionsForBlock(height: number, collections: readonly ReceivedCollection[]): number {
    const record = this.get(height);
    if (record === undefined) return 0;
    const taken = collections.filter(({ collection: { id } }) => this.#remove(id, record));
    for (const received of taken) this.#take(record, received);
    return taken.length;
  }

  /** The height is durable: drops everything kept for it. Throws if it was not complete, which is a bug. */
  onIndexedForBlock(record: HeightRecord): void {
    const { height, isInHand, status } = record;
    if (status === 'linked' || status === 'collecting')
      throw new Error(`height ${height} was indexed before it was complete`);
    if (isInHand) this.#window.move(record, 'durable');
  }

  #register(record: HeightRecord): void {
    for (const id of record.block.collectionIds) {
      let wanted = this.#wanted.get(id);
      if (wanted === undefined) {
        wanted = new WantedCollection(id);
        this.#wanted.set(id, wanted);
      }
      if (wanted.isWantedBy(record)) continue;
      if (!wanted.isWanted) this.#missingCollections += 1;
      wanted.add(record);
      record.missingCount += 1;
    }
  }

  #take(record: HeightRecord, received: ReceivedCollection): void {
    const { id, encoded } = received.collection;
    record.received.set(id, received);
    this.#window.count(record, encoded.byteLength);
    record.missingCount -= 1;
    record.source = received.source;
    if (record.missingCount === 0) this.#window.move(record, 'complete');
  }

  /** False when the height does not want the id (any longer). */
  #remove(id: Identifier, record: HeightRecord): boolean {
    const wanted = this.#wanted.get(id);
    if (wanted?.remove(record) !== true) return false;
    if (wanted.isWanted) return true;
    this.#missingCollections -= 1;
    this.#dropIfIdle(wanted);
    return true;
  }

  #dropIfIdle(wanted: WantedCollection): void {
    if (!wanted.isWanted && !wanted.isAskedFor) this.#wanted.delete(wanted.id);
  }
}
