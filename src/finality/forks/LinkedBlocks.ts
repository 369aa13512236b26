import type { AccessMethod } from '../../access/index.js';
import { isSameBlock } from '../../flow/index.js';
import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import { blockToJob } from '../../jobqueue/index.js';
import type { BlockJob } from '../../jobqueue/index.js';

/** What is known of a block without its body. */
export interface BlockLink {
  readonly height: number;
  readonly id: Identifier;
  readonly parentId: Identifier;
}

/** The durable end of the chain: the indexer's watermark. */
export interface Watermark {
  /** Every height up to it is durable; the first height minus one on an empty store. */
  latestIndexedHeight(): number;
  /** The block at the watermark; `undefined` on an empty store, whose first block has no parent to check. */
  latestBlock(): BlockLink | undefined;
}

/** A spork whose root block names a parent of its own. */
export interface SporkRoot {
  readonly rootHeight: number;
  readonly rootParentId: Identifier;
  /** False where the parent is known to be another block than the one that nodes have below the root. Default true. */
  readonly rootParentIsBelow?: boolean;
}

/** Who gave a block, and in answer to which call. */
export interface Giver {
  readonly name: string;
  readonly method: AccessMethod;
}

interface Entry {
  readonly job: BlockJob<FinalizedBlock>;
  readonly giver: Giver;
}

/**
 * The blocks above the watermark that link to it, parent by parent, without a gap. What the watermark has passed is
 * dropped, so that it never holds more than the window.
 */
export class LinkedBlocks {
  readonly #watermark: Watermark;
  readonly #rootParents: ReadonlyMap<number, Identifier>;
  /** By height: the only block that may stand there. */
  readonly #vouched: ReadonlyMap<number, Identifier>;
  readonly #entries = new Map<number, Entry>();
  /** Blocks that were taken back after they may have been handed out. */
  readonly #takenBack = new Map<number, FinalizedBlock>();
  #base: number;
  #next: number;

  constructor(
    options: { readonly sporkRoots: readonly SporkRoot[] },
    dependencies: { readonly watermark: Watermark },
  ) {
    this.#watermark = dependencies.watermark;
    this.#rootParents = new Map(options.sporkRoots.map((root) => [root.rootHeight, root.rootParentId]));
    this.#vouched = new Map(
      options.sporkRoots
        .filter(({ rootParentIsBelow = true }) => rootParentIsBelow)
        .map(({ rootHeight, rootParentId }) => [rootHeight - 1, rootParentId]),
    );
    this.#base = this.#watermark.latestIndexedHeight();
    this.#next = this.#base + 1;
  }

  /** The lowest height that is not linked yet. */
  get next(): number {
    return this.#next;
  }

  get size(): number {
    return this.#entries.size;
  }

  jobAt(height: number): BlockJob<FinalizedBlock> | undefined {
    return this.#entries.get(height)?.job;
  }

  /** Who gave the block of this height; `undefined` when it is not held here. */
  giverOf(height: number): Giver | undefined {
    return this.#entries.get(height)?.giver;
  }

  /** The heights whose blocks this node gave by this call, ascending. */
  givenBy({ name, method }: Giver): readonly number[] {
    return [...this.#entries]
      .filter(([, { giver }]) => giver.name === name && giver.method === method)
      .map(([height]) => height)
      .sort((a, b) => a - b);
  }

  /** The block that the next one must name as its parent; `undefined` when the next one is the first of a store. */
  tip(): BlockLink | undefined {
    this.prune();
    const held = this.#entries.get(this.#next - 1);
    if (held !== undefined) return held.job.block;
    const latest = this.#watermark.latestBlock();
    if (latest !== undefined && latest.height !== this.#next - 1)
      throw new Error(`the block at the watermark is ${latest.height}, not ${this.#next - 1}`);
    return latest;
  }

  /** The id of the block at the end of a spork, where the root of the next one tells it. */
  vouchedAt(height: number): Identifier | undefined {
    return this.#vouched.get(height);
  }

  /** False for a block that stands where the spork table vouches for another one. */
  mayStand({ height, id }: BlockLink): boolean {
    const vouched = this.#vouched.get(height);
    return vouched === undefined || vouched === id;
  }

  /** True when the block may stand at `next`. */
  links(block: FinalizedBlock): boolean {
    const tip = this.tip();
    if (block.height !== this.#next || !this.mayStand(block)) return false;
    return (
      tip === undefined || block.parentId === tip.id || block.parentId === this.#rootParents.get(block.height)
    );
  }

  /** Appends a block that links. Returns another block that stood here and was taken back, if there was one. */
  append(block: FinalizedBlock, giver: Giver): FinalizedBlock | undefined {
    if (!this.links(block)) throw new Error(`block ${block.height} does not link`);
    this.#entries.set(block.height, { job: blockToJob(block), giver });
    this.#next = block.height + 1;
    const former = this.#takenBack.get(block.height);
    this.#takenBack.delete(block.height);
    return former === undefined || isSameBlock(former, block) ? undefined : former;
  }

  /** Puts the same block with other guarantees in the place of the one held. */
  exchange(block: FinalizedBlock, giver: Giver): void {
    const held = this.#entries.get(block.height)?.job.block;
    if (held?.id !== block.id || held.parentId !== block.parentId)
      throw new Error(`block ${block.height} is not the one held`);
    this.#entries.set(block.height, { job: blockToJob(block), giver });
  }

  /** Takes back every block from `height` on. */
  takeBack(height: number): void {
    for (let above = height; above < this.#next; above += 1) {
      const entry = this.#entries.get(above);
      if (entry === undefined) continue;
      this.#entries.delete(above);
      this.#takenBack.set(above, entry.job.block);
    }
    this.#next = Math.min(this.#next, height);
  }

  /**
   * Drops what the watermark has passed. When what it passed is not what was linked here (blocks that an earlier run had
   * made durable), everything above is taken back: it has to link to the durable block.
   */
  prune(): void {
    const watermark = this.#watermark.latestIndexedHeight();
    if (watermark <= this.#base) return;
    const passed = this.#entries.get(watermark)?.job.block;
    const latest = this.#watermark.latestBlock();
    if (watermark >= this.#next) this.#next = watermark + 1;
    else if (latest?.height === watermark && latest.id !== passed?.id) this.takeBack(watermark + 1);
    for (const kept of [this.#entries, this.#takenBack])
      if (watermark - this.#base <= kept.size)
        for (let height = this.#base + 1; height <= watermark; height += 1) kept.delete(height);
      else for (const height of [...kept.keys()]) if (height <= watermark) kept.delete(height);
    this.#base = watermark;
  }
}
