import { backoffMs, type Random } from '../../runtime/index.js';
import type { AccessNode, NodeHealth } from '../types.js';

/** Every n-th attempt goes to a node of worse health: it may be the only one that has the data. */
const ATTEMPTS_PER_LESSER_NODE = 3;

const BEST_FIRST: readonly NodeHealth[] = ['healthy', 'failing', 'set_aside', 'unknown', 'foreign'];

/** Which node to ask next, or how long until one may be asked: Infinity when a slot has to become free first. */
export type Choice = { readonly node: AccessNode } | { readonly node: undefined; readonly retryInMs: number };

/**
 * The attempts at one question, which is repeated until it is answered: which node to ask next, and after which pause.
 *
 * The nodes of the best available health are asked in turn, best first; if they are only busy, the question waits for
 * them, rather than going to one that is failing or penalized. Those get one attempt in three, so that data can be found
 * even if its only holder once failed. Bounded by the number of nodes.
 */
export class Attempts {
  /** Attempts that failed since the last success. */
  failures = 0;
  /** The nodes that were asked without success since all of the best had been. */
  #asked: Set<string> | undefined;
  #last: string | undefined;

  /** Without a node: there was none to ask. */
  failed(node?: AccessNode): void {
    this.failures += 1;
    if (node !== undefined) this.declined(node);
  }

  /** The node refused because it was asked too early or too often: prefers the others, and counts no failure. */
  declined({ name }: AccessNode): void {
    this.#last = name;
    (this.#asked ??= new Set()).add(name);
  }

  succeeded(): void {
    this.failures = 0;
    this.#asked = this.#last = undefined;
  }

  /**
   * Chooses among nodes given best first. `healthOf`: the worse of the node's health and that of the call to be used.
   * `waitMs`: how long until the node takes a call, Infinity while it has no free slot. Default: it takes one now.
   */
  choose(
    nodes: readonly AccessNode[],
    healthOf: (node: AccessNode) => NodeHealth,
    waitMs: (node: AccessNode) => number = () => 0,
  ): Choice {
    const healths = nodes.map(healthOf);
    const bestHealth = BEST_FIRST.find((health) => healths.includes(health));
    const best = nodes.filter((_, at) => healths[at] === bestHealth);
    const isReady = (node: AccessNode): boolean => waitMs(node) <= 0;
    const isNext = (node: AccessNode): boolean => this.#last !== node.name && isReady(node);
    const wasAsked = ({ name }: AccessNode): boolean => this.#asked?.has(name) === true;
    if (best.every(wasAsked)) this.#asked = undefined;
    const chosen =
      this.#lesserTurn(nodes.filter((_, at) => healths[at] !== bestHealth)).find(isNext) ??
      best.find((node) => !wasAsked(node) && isNext(node)) ??
      best.find(isNext) ??
      best.find(isReady);
    if (chosen !== undefined) return { node: chosen };
    return { node: undefined, retryInMs: Math.min(...best.map(waitMs)) };
  }

  /** The pause before the next attempt: doubles with each round of all nodes, and is shorter with more of them. */
  pauseMs(bounds: { readonly minMs: number; readonly maxMs: number }, random: Random, nodes = 1): number {
    const rounds = Math.floor((Math.max(1, this.failures) - 1) / nodes);
    return backoffMs(bounds, rounds, random) / nodes;
  }

  #lesserTurn(lesser: readonly AccessNode[]): readonly AccessNode[] {
    if (this.failures % ATTEMPTS_PER_LESSER_NODE !== ATTEMPTS_PER_LESSER_NODE - 1) return [];
    const turn = Math.floor(this.failures / ATTEMPTS_PER_LESSER_NODE) % lesser.length;
    return lesser.slice(turn, turn + 1);
  }
}
