import type { FinalizedBlock, VerifiedCollection } from '../../flow/index.js';
import type { BlockEntry, SporkRecord } from '../../storage/index.js';

/** How much one durable batch may carry. */
export interface GroupBounds {
  /** Heights with collections. */
  readonly maxHeights: number;
  /** Heights, those without collections included. */
  readonly maxEmptyHeights: number;
  /** Collection bytes; a single larger block has a batch of its own. */
  readonly maxBytes: number;
}

/** A height from the moment it is complete until it is durable. */
export interface Turn extends BlockEntry {
  readonly bytes: number;
  readonly promise: Promise<boolean>;
  resolve(written: boolean): void;
  reject(error: Error): void;
}

export function newTurn(block: FinalizedBlock, collections: readonly VerifiedCollection[]): Turn {
  let bytes = 0;
  for (const collection of collections) bytes += collection.encoded.byteLength;
  let resolve: (written: boolean) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<boolean>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { block, collections, bytes, promise, resolve, reject };
}

/** The heights of one durable batch, as they come together: within the bounds, and with one spork record at most. */
export class CommitGroup {
  readonly #bounds: GroupBounds;
  readonly #turns = new Map<number, Turn>();
  #bytes = 0;
  #filled = 0;
  #spork: SporkRecord | undefined;

  constructor(bounds: GroupBounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#turns.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** First seen with one of its heights. */
  get spork(): SporkRecord | undefined {
    return this.#spork;
  }

  get turns(): ReadonlyMap<number, Turn> {
    return this.#turns;
  }

  /** By height. */
  ascending(): readonly Turn[] {
    return [...this.#turns.values()].sort((left, right) => left.block.height - right.block.height);
  }

  get isFull(): boolean {
    const { maxBytes, maxEmptyHeights, maxHeights } = this.#bounds;
    return this.#filled >= maxHeights || this.#turns.size >= maxEmptyHeights || this.#bytes >= maxBytes;
  }

  /** `root`: the record of the spork that begins with this block. False: it has to wait for the next batch. */
  add(turn: Turn, root: SporkRecord | undefined): boolean {
    const isTooMuch = this.isFull || this.#bytes + turn.bytes > this.#bounds.maxBytes;
    if (this.#turns.size > 0 && isTooMuch) return false;
    if (root !== undefined && this.#spork !== undefined) return false;
    this.#spork ??= root;
    this.#bytes += turn.bytes;
    if (turn.collections.length > 0) this.#filled += 1;
    this.#turns.set(turn.block.height, turn);
    return true;
  }

  /** Leaves out a height that turned out to be durable. */
  drop(turn: Turn): void {
    if (!this.#turns.delete(turn.block.height)) return;
    this.#bytes -= turn.bytes;
    if (turn.collections.length > 0) this.#filled -= 1;
  }
}
