import type { BlockSource } from '../../access/index.js';
import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import type { ReceivedCollection } from '../ports.js';
import type { HeightRecord } from './HeightRecord.js';
import { WantedCollection } from './WantedCollection.js';
import type { Window } from './Window.js';

interface Receipt {
  /** `duplicate`: received or indexed before. `unsolicited`: no height of the window ever wanted it. */
  readonly decision: 'taken' | 'duplicate' | 'unsolicited';
  /** The heights that it completed, ascending. */
  readonly completed: readonly HeightRecord[];
}

const DUPLICATE: Receipt = { decision: 'duplicate', completed: [] };
const UNSOLICITED: Receipt = { decision: 'unsolicited', completed: [] };

/**
 * MCQ: which heights lack which collections, what has arrived for them, and which heights want an id. It is the view of
 * the window by collections, and the only index by id. Pure state: it never indexes, and never calls back
 * (docs/architecture.md, "The parts").
 *
 * A height is in hand from `enqueueMissingCollections` until `onIndexedForBlock`, complete or not. Bounds: at most
 * K incomplete heights and twice as many in hand, because a batch may move the window before its durable
 * heights have left. The ids of the last K durable heights with collections are kept to tell a late delivery
 * from an unsolicited one.
 */
export class MissingCollectionQueue {
  readonly #window: Window;
  /** Every id that a height lacks, or that the requester has not released yet. */
  readonly #wanted = new Map<Identifier, WantedCollection>();
  #missingCollections = 0;
  /** Ring buffer with the ids of the heights that became durable last. */
  readonly #indexedIds: (readonly Identifier[])[] = [];
  #nextIndexedIds = 0;

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

  /** The distinct ids that a height lacks, in guarantee order; none for a height that is complete or unknown. */
  missingIds(height: number): Identifier[] {
    const record = this.get(height);
    if (record === undefined || record.missingCount === 0) return [];
    return [...new Set(record.block.collectionIds)].filter((id) => !record.received.has(id));
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
   * Replaces the block of an incomplete height; keeps received collections that are still wanted. Returns `undefined`,
   * and changes nothing, when the height is unknown or complete.
   */
  replaceBlock(block: FinalizedBlock, blockSource?: BlockSource): HeightRecord | undefined {
    const record = this.#window.at(block.height);
    if (record?.mayBeReplaced !== true) return undefined;
    if (record.status === 'linked') {
      record.replaceBlock(block, blockSource);
      return record;
    }
    for (const id of record.block.collectionIds) this.#remove(id, record);
    const carried = record.received;
    this.#window.count(record, -record.bytes);
    record.replaceBlock(block, blockSource);
    this.#register(record, carried);
    if (record.missingCount === 0) this.#window.move(record, 'complete');
    return record;
  }

  /** One collection by id, for every height that lacks it. */
  onReceivedCollection(received: ReceivedCollection): Receipt {
    const { id } = received.collection;
    const wanted = this.#wanted.get(id);
    if (wanted?.isWanted !== true) return this.#knows(id) ? DUPLICATE : UNSOLICITED;
    const takers = wanted.heights.splice(0);
    for (const record of takers) this.#take(record, received);
    this.#missingCollections -= 1;
    this.#dropIfIdle(wanted);
    return { decision: 'taken', completed: takers.filter(({ missingCount }) => missingCount === 0) };
  }

  /**
   * All collections of one block, in guarantee order, for this height alone: other heights keep wanting the ids that
   * they lack. Returns those that were still missing. The caller has compared the ids.
   */
  onReceivedCollectionsForBlock(
    height: number,
    collections: readonly ReceivedCollection[],
  ): ReceivedCollection[] {
    const record = this.get(height);
    if (record === undefined || record.missingCount === 0) return [];
    const taken: ReceivedCollection[] = [];
    for (const received of collections) {
      if (!this.#remove(received.collection.id, record)) continue;
      this.#take(record, received);
      taken.push(received);
    }
    return taken;
  }

  /** The height is durable: drops everything kept for it. Throws if it is incomplete, which is a bug. */
  onIndexedForBlock(record: HeightRecord): void {
    const { height, missingCount, status } = record;
    if (status === 'linked' || missingCount !== 0)
      throw new Error(`height ${height} was indexed before it was complete`);
    if (record.isInHand) this.#window.move(record, 'durable');
    const { collectionIds } = record.block;
    if (collectionIds.length === 0) return;
    this.#indexedIds[this.#nextIndexedIds] = collectionIds;
    this.#nextIndexedIds = (this.#nextIndexedIds + 1) % this.#window.heights;
  }

  /** Registers the ids of a record's block that are not in `carried`. */
  #register(record: HeightRecord, carried?: ReadonlyMap<Identifier, ReceivedCollection>): void {
    const { collectionIds } = record.block;
    record.received = new Map();
    record.missingCount = 0;
    if (collectionIds.length === 0) record.source = 'none';
    for (const id of collectionIds) {
      const received = carried?.get(id);
      if (received !== undefined) {
        this.#keep(record, received);
        continue;
      }
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

  #keep(record: HeightRecord, received: ReceivedCollection): void {
    const { id, encoded } = received.collection;
    if (record.received.has(id)) return;
    record.received.set(id, received);
    this.#window.count(record, encoded.byteLength);
  }

  #take(record: HeightRecord, received: ReceivedCollection): void {
    this.#keep(record, received);
    record.missingCount -= 1;
    record.source = received.source;
    if (record.missingCount === 0) this.#window.move(record, 'complete');
  }

  /** False when the height does not want the id (any more). */
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

  /** Not on the hot path: late answers are rare, so there is no index for them. */
  #knows(id: Identifier): boolean {
    for (const { block, isInHand } of this.#window.all())
      if (isInHand && block.collectionIds.includes(id)) return true;
    return this.#indexedIds.some((ids) => ids.includes(id));
  }
}
