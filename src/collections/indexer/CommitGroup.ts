import type { VerifiedCollection } from '../../flow/index.js';
import type { SporkRecord } from '../../storage/index.js';
import type { Commit, HeightRecord } from '../heights/HeightRecord.js';

/** How much one durable batch may carry. */
export interface GroupBounds {
  /** Heights with collections. */
  readonly maxHeights: number;
  /** Heights, those without collections included. */
  readonly maxEmptyHeights: number;
  /** Collection bytes; a single larger block has a batch of its own. */
  readonly maxBytes: number;
}

export function newCommit(record: HeightRecord, collections: readonly VerifiedCollection[]): Commit {
  let bytes = 0;
  for (const collection of collections) bytes += collection.encoded.byteLength;
  let resolve: (written: boolean) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<boolean>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { record, block: record.block, collections, bytes, promise, resolve, reject };
}

export function byHeight(left: Commit, right: Commit): number {
  return left.block.height - right.block.height;
}

/** The heights of one durable batch while it is assembled: within the bounds, and with at most one spork record. */
export class CommitGroup {
  readonly #bounds: GroupBounds;
  #commits: Commit[] = [];
  #bytes = 0;
  #filled = 0;
  #spork: SporkRecord | undefined;

  constructor(bounds: GroupBounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#commits.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The record of a spork that begins in this batch. */
  get spork(): SporkRecord | undefined {
    return this.#spork;
  }

  /** In order of height. */
  ascending(): readonly Commit[] {
    return this.#commits.sort(byHeight);
  }

  get isFull(): boolean {
    const { maxBytes, maxEmptyHeights, maxHeights } = this.#bounds;
    return this.#filled >= maxHeights || this.size >= maxEmptyHeights || this.#bytes >= maxBytes;
  }

  /** `root`: the record of the spork that begins with this block. False if it must wait for the next batch. */
  add(commit: Commit, root: SporkRecord | undefined): boolean {
    const isTooMuch = this.isFull || this.#bytes + commit.bytes > this.#bounds.maxBytes;
    if (this.size > 0 && isTooMuch) return false;
    if (root !== undefined && this.#spork !== undefined) return false;
    this.#spork ??= root;
    this.#bytes += commit.bytes;
    if (commit.collections.length > 0) this.#filled += 1;
    this.#commits.push(commit);
    return true;
  }

  /** Drops heights that turned out to be durable. */
  dropDurable(isDurable: (commit: Commit) => boolean): void {
    this.#commits = this.#commits.filter((commit) => {
      if (!isDurable(commit)) return true;
      this.#bytes -= commit.bytes;
      if (commit.collections.length > 0) this.#filled -= 1;
      return false;
    });
  }
}
