import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockHead } from '../../port/stored.js';
import type { Put } from '../../records/blocks/BlockEntryWriter.js';
import { readHead } from '../../records/blocks/readBlocks.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { WriteBatch } from '../../records/Database.js';
import type { CommitQueue } from './CommitQueue.js';

/**
 * With this many bytes of collections a group is full, and no further range joins it: the live range never waits long for
 * a write that it is not part of.
 */
const GROUP_FULL_BYTES = 2 * 1024 * 1024;

type MaybePromise<T> = T | Promise<T>;

/** The block of a height in the book: durable, or carried by the same write. Expected errors: `StorageError`. */
export type HeadAt = (height: number) => Promise<BlockHead>;

/** The result of a change. */
export interface Changed {
  readonly after: StoreBook;
  /** Puts further entries into the same write, or deletes some. */
  readonly putAlso?: ((put: Put, del: (key: Buffer) => void) => void) | undefined;
  /** Called once the write is durable and the new book counts. */
  readonly onDurable?: (() => void) | undefined;
}

/** Returns the new book; earlier changes of the same write are in the given one. `undefined`: no change. */
export type Change = (book: StoreBook, headAt: HeadAt) => MaybePromise<Changed | undefined>;

/** A change that waits for the write that carries it. */
export class WaitingChange {
  readonly change: Change;
  readonly blocks: readonly BlockEntry[];
  readonly bytes: number;
  /** Resolves when the change is durable. Rejects with its own error, or that of the write. */
  readonly done: Promise<void>;
  resolve: () => void = () => undefined;
  reject: (error: unknown) => void = () => undefined;

  constructor(change: Change, blocks: readonly BlockEntry[]) {
    this.change = change;
    this.blocks = blocks;
    this.bytes = blocks
      .flatMap(({ collections }) => collections)
      .reduce((sum, { encoded }) => sum + encoded.length, 0);
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }
}

/**
 * Changes that become one write. The entries of their blocks are prepared while the previous write is under way. Dispose of
 * it once it is written, or will not be.
 */
export class ChangeGroup implements Disposable {
  readonly #queue: Pick<CommitQueue, 'database' | 'fill'>;
  /** Changes whose blocks are all in the batch, in order of arrival. */
  #members: WaitingChange[] = [];
  #batch: WriteBatch | undefined;
  /** All that the group ever had. */
  readonly #batches = new Set<WriteBatch>();
  #bytes = 0;
  #filling: Promise<void> = Promise.resolve();
  /** The batch contains a part of a change that failed to join. */
  #isSpoilt = false;
  #resolveClosed: () => void = () => undefined;
  /** Resolves when no further change may join. */
  readonly closed: Promise<void>;

  constructor(queue: Pick<CommitQueue, 'database' | 'fill'>) {
    this.#queue = queue;
    this.closed = new Promise((resolve) => (this.#resolveClosed = resolve));
  }

  get members(): readonly WaitingChange[] {
    return this.#members;
  }

  get isFull(): boolean {
    return this.#bytes >= GROUP_FULL_BYTES;
  }

  /** One at a time. */
  add(member: WaitingChange): Promise<void> {
    const adding = this.#add(member);
    this.#filling = adding.catch(() => undefined);
    return adding;
  }

  /** No further change may join; waits for the one that is joining. */
  async close(): Promise<void> {
    this.#resolveClosed();
    await this.#filling;
  }

  /** Adds the live range, whose batch it takes over: the smaller of the two batches is copied into the other. */
  async addLive(live: WaitingChange, prepared: WriteBatch): Promise<void> {
    const batch = this.#batch;
    const others = this.#members;
    this.#members = [live, ...others];
    this.#batches.add(prepared);
    if (batch === undefined || this.#bytes <= live.bytes) {
      this.#batch = prepared;
      for (const { blocks } of others) await this.#queue.fill(prepared, blocks);
      this.#isSpoilt = false;
    } else {
      await this.#queue.fill(batch, live.blocks);
    }
    this.#bytes += live.bytes;
  }

  /**
   * Applies the changes in order. A change that throws is rejected, and leaves nothing in the batch, which holds the blocks
   * of the accepted ones.
   */
  async apply(before: StoreBook) {
    const accepted: WaitingChange[] = [];
    const changes: Changed[] = [];
    const heads = new Map<number, BlockHead>();
    const headAt: HeadAt = (height) =>
      Promise.resolve(heads.get(height) ?? readHead(this.#queue.database, height));
    let after = before;
    for (const member of this.#members) {
      try {
        const changed = await member.change(after, headAt);
        accepted.push(member);
        if (changed === undefined) continue;
        after = changed.after;
        changes.push(changed);
        for (const { block } of member.blocks) heads.set(block.height, block);
      } catch (error) {
        member.reject(error);
      }
    }
    return { after, accepted, changes, batch: await this.#batchOf(accepted) };
  }

  [Symbol.dispose](): void {
    for (const batch of this.#batches) batch[Symbol.dispose]();
  }

  async #add(member: WaitingChange): Promise<void> {
    try {
      await this.#queue.fill(this.#batch ?? this.#begin(), member.blocks);
    } catch (error) {
      this.#isSpoilt = true;
      throw error;
    }
    this.#members.push(member);
    this.#bytes += member.bytes;
  }

  async #batchOf(accepted: readonly WaitingChange[]): Promise<WriteBatch> {
    const isAll = accepted.length === this.#members.length && !this.#isSpoilt;
    if (this.#batch !== undefined && isAll) return this.#batch;
    const batch = this.#begin();
    for (const { blocks } of accepted) await this.#queue.fill(batch, blocks);
    return batch;
  }

  #begin(): WriteBatch {
    this.#batch = this.#queue.database.batch();
    this.#batches.add(this.#batch);
    return this.#batch;
  }
}
