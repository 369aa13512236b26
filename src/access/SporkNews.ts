import type { Clock } from '../runtime/index.js';

/** How long the others are waited for: then those that have answered decide. */
const OTHERS_WAIT_MS = 60_000;
/** A node that tells of ever other sporks does not hold up the heights by that: it is news once in so long. */
const NEWS_AT_MOST_EVERY_MS = 600_000;

interface News<Node> {
  readonly rootHeight: number;
  readonly toldAtMs: number;
  /** Who has not been asked since. */
  readonly unheard: Set<Node>;
}

/**
 * What is heard of sporks that the store has not come to. The first node to tell of one may lie about its id, which the
 * store records for good; so the heights of a new spork are served once the others that may have crossed into it were
 * asked again. Holds two entries per node at most.
 */
export class SporkNews<Node> {
  private readonly clock: Clock;
  /** By the node that told first. */
  private readonly tellers = new Map<Node, News<Node>>();
  /** What each node told while the store was empty: its heights were served at once, and are not held up later. */
  private readonly toldAtStart = new Map<Node, number>();

  constructor(dependencies: { readonly clock: Clock }) {
    this.clock = dependencies.clock;
  }

  /** A node tells of a spork while nothing is stored yet: there is no telling what is ahead of the store. */
  begins(node: Node, rootHeight: number): void {
    this.toldAtStart.set(node, rootHeight);
  }

  /** A node tells of a spork that nobody else told of. False when that is no news: the others need not be asked. */
  tells(node: Node, rootHeight: number, others: readonly Node[]): boolean {
    if ([...this.toldAtStart.values()].includes(rootHeight)) return false;
    const toldAtMs = this.clock.monotonic();
    const last = this.tellers.get(node);
    if (last !== undefined && toldAtMs < last.toldAtMs + NEWS_AT_MOST_EVERY_MS) return false;
    this.tellers.set(node, { rootHeight, toldAtMs, unheard: new Set(others) });
    return true;
  }

  /** A node was asked who it is, whatever came of it. */
  answered(node: Node): void {
    for (const { unheard } of this.tellers.values()) unheard.delete(node);
  }

  forget(node: Node): void {
    this.answered(node);
    this.tellers.delete(node);
    this.toldAtStart.delete(node);
  }

  /** True while it is not known what the others say of a spork that a height may belong to. */
  isOpen(height: number): boolean {
    const nowMs = this.clock.monotonic();
    for (const { rootHeight, toldAtMs, unheard } of this.tellers.values()) {
      if (rootHeight <= height && unheard.size > 0 && nowMs < toldAtMs + OTHERS_WAIT_MS) return true;
    }
    return false;
  }
}
