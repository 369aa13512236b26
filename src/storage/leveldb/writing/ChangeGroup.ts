import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockHead } from '../../port/stored.js';
import type { Put } from '../../records/blocks/BlockEntryWriter.js';
import { readHead } from '../../records/book/readLine.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database, WriteBatch } from '../../records/Database.js';
import type { LevelIndexWriter } from './LevelIndexWriter.js';

/**
 * Bytes of collections from which on no further range joins a group: the live range never waits long for a write that it is
 * not part of.
 */
const GROUP_FULL_BYTES = 2 * 1024 * 1024;

type MaybePromise<T> = T | Promise<T>;

/** The block of a height that the book has: durable, or carried by the same write. Expected errors: `StorageError`. */
export type HeadAt = (height: number) => Promise<BlockHead>;

/** What becomes of the book by one change. */
export interface Changed {
  readonly after: StoreBook;
  /** Further entries of the same write. */
  readonly putAlso?: ((put: Put) => void) | undefined;
  /** Called once the write is durable and the book is that of afterwards. */
  readonly onDurable?: (() => void) | undefined;
}

/** Says what becomes of the book, which others of the same write may have changed before. `undefined`: nothing. */
export type Change = (book: StoreBook, headAt: HeadAt) => MaybePromise<Changed | undefined>;

/** A change that waits for the write that carries it. */
export class WaitingChange {
  readonly change: Change;
  readonly blocks: readonly BlockEntry[];
  readonly bytes: number;
  /** Resolves when it is durable. Rejects with its own error, and with that of the write. */
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

/** What a group comes to. */
export interface Weighed {
  readonly after: StoreBook;
  readonly accepted: readonly WaitingChange[];
  readonly changes: readonly Changed[];
  /** The blocks of the accepted ones. */
  readonly batch: WriteBatch;
}

export interface ChangeGroupDependencies {
  readonly database: Database;
  readonly writer: LevelIndexWriter;
}

/** Changes that will be one write. The entries of their blocks are put together while the write before is under way. */
export class ChangeGroup {
  readonly #deps: ChangeGroupDependencies;
  /** Whole ones, in order of arrival. */
  #members: WaitingChange[] = [];
  #batch: WriteBatch | undefined;
  #bytes = 0;
  #filling: Promise<void> = Promise.resolve();
  /** Some of a change that came to nothing is in the batch. */
  #isSpoilt = false;
  #tellTaken: () => void = () => undefined;
  /** Resolves when nothing joins it any more. */
  readonly taken: Promise<void>;

  constructor(dependencies: ChangeGroupDependencies) {
    this.#deps = dependencies;
    this.taken = new Promise((resolve) => (this.#tellTaken = resolve));
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

  /** Nothing joins it any more, but what is being added. */
  async close(): Promise<void> {
    this.#tellTaken();
    await this.#filling;
  }

  /** The live range comes in with a batch of its own; the smaller of the two is put together again. */
  async addLive(live: WaitingChange, prepared: WriteBatch): Promise<void> {
    const { writer } = this.#deps;
    const batch = this.#batch;
    const others = this.#members;
    this.#members = [live, ...others];
    if (batch === undefined || this.#bytes <= live.bytes) {
      this.#batch = prepared;
      batch?.discard();
      for (const { blocks } of others) await writer.fill(prepared, blocks);
      this.#isSpoilt = false;
    } else {
      prepared.discard();
      await writer.fill(batch, live.blocks);
    }
    this.#bytes += live.bytes;
  }

  /** Has the changes made one after the other. Those that refuse are rejected, and leave nothing in the batch. */
  async weigh(before: StoreBook): Promise<Weighed> {
    const accepted: WaitingChange[] = [];
    const changes: Changed[] = [];
    const heads = new Map<number, BlockHead>();
    const headAt: HeadAt = (height) =>
      Promise.resolve(heads.get(height) ?? readHead(this.#deps.database, height));
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

  async #add(member: WaitingChange): Promise<void> {
    const { database, writer } = this.#deps;
    this.#batch ??= database.batch();
    try {
      await writer.fill(this.#batch, member.blocks);
    } catch (error) {
      this.#isSpoilt = true;
      throw error;
    }
    this.#members.push(member);
    this.#bytes += member.bytes;
  }

  async #batchOf(accepted: readonly WaitingChange[]): Promise<WriteBatch> {
    const { database, writer } = this.#deps;
    const isAll = accepted.length === this.#members.length && !this.#isSpoilt;
    if (this.#batch !== undefined && isAll) return this.#batch;
    this.#batch?.discard();
    const batch = database.batch();
    for (const { blocks } of accepted) await writer.fill(batch, blocks);
    return batch;
  }
}
