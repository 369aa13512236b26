import { AbortError, abortReason, asError, sleep, type Clock } from '../runtime/index.js';
import type { WriteRoom } from './port/IndexStore.js';
import type { BlockEntry, CommitBatch, RangeStore } from './port/RangeStore.js';
import type { BlockHead, SporkRecord } from './port/stored.js';

export interface CommitQueueOptions {
  /** Most heights with collections in one durable batch. */
  readonly groupMaxHeights: number;
  /** Most heights in one durable batch, those without collections included. Default: `groupMaxHeights`. */
  readonly groupMaxEmptyHeights?: number;
  /** Most collection bytes in one durable batch; a single larger block has a batch of its own. */
  readonly groupMaxBytes: number;
}

/** A block to be written, and the record of the spork that begins with it. */
interface Waiting extends BlockEntry {
  readonly spork: SporkRecord | undefined;
  /** Of its collections. */
  readonly bytes: number;
  readonly resolve: (written: boolean) => void;
  readonly reject: (error: Error) => void;
}

/** Bytes staged before yielding to the event loop. */
const TURN_BYTES = 128 * 1024;

/**
 * Writes the blocks of one run of heights: the only writer. Blocks above a gap are written at once; the watermark passes
 * over them in the batch that closes the gap. Those of an earlier process count only once they are confirmed.
 *
 * Group commit: while a durable batch is being written, every block that is handed in joins the next one, lowest heights
 * first: a slow disk makes larger groups, not longer queues. The next batch's entries are prepared meanwhile
 * (`RangeStore.stage`), so that the disk does not wait for them.
 */
export class CommitQueue {
  readonly #store: RangeStore;
  readonly #options: CommitQueueOptions;
  readonly #deps: ConstructorParameters<typeof CommitQueue>[2];
  /** Durable above the watermark since before, and not confirmed yet. */
  readonly #doubted: Map<number, BlockHead>;
  /** Aborted when it takes no more blocks, and writes no further batch: it was stopped, or the store failed. */
  readonly #over = new AbortController();
  /** Handed in, and not in the next batch yet: at most one window of heights. */
  #waiting: Waiting[] = [];
  /** The next batch, while it is put together. */
  #next = new Group();
  /** The rest of the next batch is staged in a later turn of the event loop. */
  #isStaging = false;
  #startedAtMs: number | undefined;
  #running: Promise<void> | undefined;

  constructor(
    store: RangeStore,
    options: CommitQueueOptions,
    dependencies: {
      readonly clock: Clock;
      /** While there is no room, no batch begins. Default: there is always room. */
      readonly room?: WriteRoom | undefined;
      /** The record of the spork at the watermark, if the store lacks it though its root is durable. */
      readonly lateSpork: () => Promise<SporkRecord | undefined> | undefined;
      /** Called before anybody learns that its block is durable; the watermark may have moved. */
      readonly onDurable: (group: Group, durationMs: number) => void;
    },
  ) {
    this.#store = store;
    this.#options = options;
    this.#deps = dependencies;
    this.#doubted = new Map(store.blocksAboveWatermark().map((head) => [head.height, head]));
  }

  /** Monotonic milliseconds at which the current batch was handed to the store; `undefined` when none is. */
  startedAtMs(): number | undefined {
    return this.#startedAtMs;
  }

  /**
   * Resolves when the block is durable: with false if it was already when its turn came. Rejects with AbortError after
   * `stop`, with `StorageError` when the store fails, with `ParentLinkError`: then what is durable above the watermark is to be
   * forgotten before a restart. Hand in each height once.
   */
  write({ block, collections, spork }: Pick<Waiting, keyof BlockEntry | 'spork'>): Promise<boolean> {
    if (this.#over.signal.aborted) return Promise.reject(abortReason(this.#over.signal));
    return new Promise((resolve, reject) => {
      let bytes = 0;
      for (const { encoded } of collections) bytes += encoded.byteLength;
      this.#waiting.push({ block, collections, spork, bytes, resolve, reject });
      if (this.#startedAtMs !== undefined) this.#stage();
      void this.#write();
    });
  }

  /** The block of a height that is durable and waits for `confirm`. */
  doubtedAt(height: number): BlockHead | undefined {
    return this.#doubted.get(height);
  }

  /**
   * The chain has this block at a durable height. Resolves once the watermark has passed it, if only this confirmation was
   * missing; `undefined` when there is nothing to wait for. Rejects like `write`.
   */
  confirm(height: number): Promise<void> | undefined {
    if (!this.#doubted.delete(height) || height !== this.#store.latestIndexedHeight() + 1) return undefined;
    return this.#write().then(() => {
      const { signal } = this.#over;
      if (signal.aborted && this.#store.latestIndexedHeight() < height) throw abortReason(signal);
    });
  }

  /**
   * Finishes the current batch and writes no other: waiting and later callers get an AbortError. Resolves when the batch is
   * over: with false if the store has failed.
   */
  async stop(): Promise<boolean> {
    const stopped = new AbortError('the indexer has stopped');
    this.#refuse(stopped);
    await this.#running;
    return this.#over.signal.reason === stopped;
  }

  /** Writes until nothing waits and the watermark cannot pass any further. */
  #write(): Promise<void> {
    this.#running ??= this.#writeGroups();
    return this.#running;
  }

  async #writeGroups(): Promise<void> {
    // Blocks that are handed in during one turn of the event loop share the first batch.
    await Promise.resolve();
    let group = new Group();
    try {
      while (this.#waiting.length > 0 || this.#next.blocks.length > 0 || this.#mayPass()) {
        const room = this.#deps.room?.whenRoom(this.#over.signal);
        if (room !== undefined) await room;
        group = this.#takeGroup();
        if (group.blocks.length > 0 || this.#mayPass()) await this.#commit(group);
        // Blocks that arrive at this moment join the batch: half as many batches, and a tenth more heights per second
        // (docs/performance.md). A block that finds the writer idle is written at once.
        if (this.#next.blocks.length > 0) await sleep(this.#deps.clock, 0);
      }
    } catch (error) {
      const failure = asError(error);
      for (const { reject } of group.blocks) reject(failure);
      this.#refuse(failure);
    }
    this.#running = undefined;
  }

  /** While a batch is being written, moves what fits into the next one, and has the store prepare it, a little at a time. */
  #stage(): void {
    if (this.#isStaging) return;
    const { blocks, bytes } = this.#next;
    const staged = blocks.length;
    this.#join(TURN_BYTES);
    for (const block of blocks.slice(staged)) this.#store.stage(block);
    if (this.#next.bytes - bytes < TURN_BYTES) return;
    this.#isStaging = true;
    this.#deps.clock.setTimer(0, () => {
      this.#isStaging = false;
      // If no batch is being written, they are in one already, or rejected.
      if (this.#startedAtMs !== undefined) this.#stage();
    });
  }

  /** Moves the lowest that wait into the next batch, while they fit, until they have `maxBytes`. */
  #join(maxBytes: number): void {
    const next = this.#next;
    if (this.#waiting.length === 0 || next.isFull(this.#options)) return;
    this.#waiting = this.#waiting.filter((each) => !this.#isDurable(each)).sort(byHeight);
    const end = next.bytes + maxBytes;
    let count = 0;
    for (const block of this.#waiting) {
      if (next.bytes >= end || !next.fits(block, this.#options)) break;
      next.add(block);
      count += 1;
    }
    this.#waiting.splice(0, count);
  }

  /** Begins the next batch, with all that fits. Empty when every height turned out to be durable. */
  #takeGroup(): Group {
    const staged = this.#next.blocks;
    this.#next = new Group();
    for (const each of staged) if (!this.#isDurable(each)) this.#next.add(each);
    this.#join(Infinity);
    const group = this.#next;
    this.#next = new Group();
    group.blocks.sort(byHeight);
    return group;
  }

  /** Checks again, now that it is the height's turn, whether it is durable already. */
  #isDurable({ block: { height }, resolve }: Waiting): boolean {
    const isDurable = height <= this.#store.latestIndexedHeight() || this.#store.hasHeight(height);
    if (isDurable) resolve(false);
    return isDurable;
  }

  async #commit(group: Group): Promise<void> {
    const { blocks } = group;
    const { clock, lateSpork, onDurable } = this.#deps;
    const late = lateSpork();
    const spork = group.spork ?? (late && (await late));
    const latestIndexedHeight = this.#newWatermark(blocks);
    const batch: CommitBatch = { blocks, latestIndexedHeight, ...(spork === undefined ? {} : { spork }) };
    const startedMs = clock.monotonic();
    this.#startedAtMs = startedMs;
    const committed = this.#store.commit(batch);
    this.#stage();
    await committed.finally(() => (this.#startedAtMs = undefined));
    if (this.#store.latestIndexedHeight() !== latestIndexedHeight) {
      throw new Error(`the store's watermark is not the ${latestIndexedHeight} that was committed`);
    }
    onDurable(group, clock.monotonic() - startedMs);
    for (const { resolve } of blocks) resolve(true);
  }

  /** The end of the unbroken run, from the watermark, of heights that are in this batch or durable and confirmed. */
  #newWatermark(blocks: readonly Waiting[]): number {
    const writing = new Set(blocks.map(({ block }) => block.height));
    let height = this.#store.latestIndexedHeight();
    while (writing.has(height + 1) || this.#isConfirmed(height + 1)) height += 1;
    return height;
  }

  /** The watermark may move without any block being written. */
  #mayPass(): boolean {
    return !this.#over.signal.aborted && this.#isConfirmed(this.#store.latestIndexedHeight() + 1);
  }

  /** True for a durable height that the watermark may pass. */
  #isConfirmed(height: number): boolean {
    return this.#store.hasHeight(height) && !this.#doubted.has(height);
  }

  /** The first refusal counts. */
  #refuse(refusal: Error): void {
    this.#over.abort(refusal);
    const dropped = [...this.#next.blocks, ...this.#waiting];
    this.#waiting = [];
    this.#next = new Group();
    for (const { reject } of dropped) reject(abortReason(this.#over.signal));
  }
}

/** Blocks that become durable, or are durable, together. */
class Group {
  readonly blocks: Waiting[] = [];
  bytes = 0;
  /** A batch has one spork record at most. */
  spork: SporkRecord | undefined;
  /** Heights with collections. */
  #filled = 0;

  isFull({
    groupMaxBytes,
    groupMaxHeights,
    groupMaxEmptyHeights = groupMaxHeights,
  }: CommitQueueOptions): boolean {
    if (this.#filled >= groupMaxHeights || this.bytes >= groupMaxBytes) return true;
    return this.blocks.length >= groupMaxEmptyHeights;
  }

  fits({ bytes, spork }: Waiting, options: CommitQueueOptions): boolean {
    if (this.blocks.length === 0) return true;
    if (this.spork !== undefined && spork !== undefined) return false;
    return !this.isFull(options) && this.bytes + bytes <= options.groupMaxBytes;
  }

  add(block: Waiting): void {
    this.blocks.push(block);
    this.bytes += block.bytes;
    if (block.collections.length > 0) this.#filled += 1;
    this.spork ??= block.spork;
  }
}

function byHeight(left: Waiting, right: Waiting): number {
  return left.block.height - right.block.height;
}
