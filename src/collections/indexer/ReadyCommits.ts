import type { FinalizedBlock } from '../../flow/index.js';
import type { SporkRecord } from '../../storage/index.js';
import type { Commit } from '../heights/HeightRecord.js';
import { byHeight, CommitGroup } from './CommitGroup.js';
import type { GroupBounds } from './CommitGroup.js';

export interface ReadyCommitsDependencies {
  /** True for a height that turned out to be durable: it needs no batch. */
  readonly isDurable: (commit: Commit) => boolean;
  /** The record of the spork that begins with a block, if it is not written yet. */
  readonly sporkAt: (block: FinalizedBlock) => SporkRecord | undefined;
}

/** The commits that are ready to be written: the next batch, and the rest. At most one window of heights. */
export class ReadyCommits {
  readonly #bounds: GroupBounds;
  readonly #dependencies: ReadyCommitsDependencies;
  #waiting: Commit[] = [];
  #next: CommitGroup;

  constructor(bounds: GroupBounds, dependencies: ReadyCommitsDependencies) {
    this.#bounds = bounds;
    this.#dependencies = dependencies;
    this.#next = new CommitGroup(bounds);
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && !this.hasNext;
  }

  /** The next batch is not empty. */
  get hasNext(): boolean {
    return this.#next.size > 0;
  }

  add(commit: Commit): void {
    this.#waiting.push(commit);
  }

  /**
   * Moves the lowest heights into the next batch while they fit. `hasMore`: more would fit, but these already have
   * `maxBytes`.
   */
  join(maxBytes: number): { readonly joined: readonly Commit[]; readonly hasMore: boolean } {
    if (this.#waiting.length === 0 || this.#next.isFull) return { joined: [], hasMore: false };
    const { isDurable, sporkAt } = this.#dependencies;
    this.#waiting = this.#waiting.filter((commit) => !isDurable(commit)).sort(byHeight);
    let bytes = 0;
    let count = 0;
    for (const commit of this.#waiting) {
      if (bytes >= maxBytes || !this.#next.add(commit, sporkAt(commit.block))) break;
      count += 1;
      bytes += commit.bytes;
    }
    const joined = this.#waiting.splice(0, count);
    return { joined, hasMore: bytes >= maxBytes && this.#waiting.length > 0 && !this.#next.isFull };
  }

  /** The next batch, with all that fits. Empty when every height turned out to be durable. */
  take(): CommitGroup {
    this.#next.dropDurable(this.#dependencies.isDurable);
    this.join(Infinity);
    const group = this.#next;
    this.#next = new CommitGroup(this.#bounds);
    return group;
  }

  /** Removes and returns everything: no batch will carry it. */
  drain(): readonly Commit[] {
    const all = [...this.#next.ascending(), ...this.#waiting];
    this.#waiting = [];
    this.#next = new CommitGroup(this.#bounds);
    return all;
  }
}
