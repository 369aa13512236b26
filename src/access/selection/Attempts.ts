import { backoffMs, type Random } from '../../runtime/index.js';
import type { AccessMethod, AccessNode, NodeHealth } from '../types.js';

/** Every n-th attempt goes to a node of worse health: it may be the only one that has the data. */
const ATTEMPTS_PER_LESSER_NODE = 3;

const BEST_FIRST: readonly NodeHealth[] = ['healthy', 'failing', 'set_aside', 'unknown', 'foreign'];

/** Which node to ask next, or how long until one may be asked: Infinity when a slot has to become free first. */
export type Choice = { readonly node: AccessNode } | { readonly node: undefined; readonly retryInMs: number };

/**
 * The attempts at one question, which is repeated until it is answered: whom to ask next, and after which pause.
 *
 * The nodes of the best available health are asked in turn, best first; if they are only busy, the question waits for
 * them, rather than going to one that is failing or penalized. Those get one attempt in three, so that data can be found
 * even if its only holder once failed. Bounded by the number of nodes.
 */
export class Attempts {
  #failures = 0;
  #rounds = 0;
  #hasRoundFailed = false;
  /** The ways that were asked in vain since the last round began. */
  #asked: Set<string> | undefined;
  #last: string | undefined;

  /** Attempts that failed since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /** Rounds of all ways of the best health, with a failure in each, since the last success. */
  get rounds(): number {
    return this.#rounds;
  }

  /** `method`: where one node may be asked in several ways in turn. Without a node: there was none to ask. */
  failed(node?: AccessNode, method?: AccessMethod): void {
    this.#failures += 1;
    this.#hasRoundFailed = true;
    if (node !== undefined) this.declined(node, method);
  }

  /** The node refused because it was asked too early or too often: prefers the others, and counts no failure. */
  declined(node: AccessNode, method?: AccessMethod): void {
    this.#last = keyOf(node, method);
    (this.#asked ??= new Set()).add(this.#last);
  }

  succeeded(): void {
    this.#failures = 0;
    this.#rounds = 0;
    this.#asked = undefined;
    this.#last = undefined;
  }

  /**
   * Chooses among nodes given best first. `healthOf`: the worse of the node's health and that of the call to be used.
   * `waitMs`: how long until the node takes a call, Infinity while it has no free slot. Default: it takes one now.
   */
  choose(
    nodes: readonly AccessNode[],
    healthOf: (node: AccessNode) => NodeHealth,
    {
      waitMs = () => 0,
      methodAt,
    }: {
      readonly waitMs?: (node: AccessNode) => number;
      readonly methodAt?: (node: AccessNode) => AccessMethod;
    } = {},
  ): Choice {
    const healths = nodes.map(healthOf);
    const bestHealth = BEST_FIRST.find((health) => healths.includes(health));
    const best = nodes.filter((_, at) => healths[at] === bestHealth);
    const isReady = (node: AccessNode): boolean => waitMs(node) <= 0;
    const isNext = (node: AccessNode): boolean =>
      this.#last !== keyOf(node, methodAt?.(node)) && isReady(node);
    const wasAsked = (node: AccessNode): boolean => this.#asked?.has(keyOf(node, methodAt?.(node))) === true;
    if (best.every(wasAsked)) {
      this.#asked = undefined;
      if (this.#hasRoundFailed) this.#rounds += 1;
      this.#hasRoundFailed = false;
    }
    const chosen =
      this.#lesserTurn(nodes.filter((_, at) => healths[at] !== bestHealth)).find(isNext) ??
      best.find((node) => !wasAsked(node) && isNext(node)) ??
      best.find(isNext) ??
      best.find(isReady);
    return chosen === undefined
      ? { node: undefined, retryInMs: Math.min(...best.map(waitMs)) }
      : { node: chosen };
  }

  /** The pause before the next attempt, which doubles with every failure. */
  pauseMs(bounds: { readonly minMs: number; readonly maxMs: number }, random: Random): number {
    return backoffMs(bounds, Math.max(1, this.#failures) - 1, random);
  }

  #lesserTurn(lesser: readonly AccessNode[]): readonly AccessNode[] {
    if (this.#failures % ATTEMPTS_PER_LESSER_NODE !== ATTEMPTS_PER_LESSER_NODE - 1) return [];
    const turn = Math.floor(this.#failures / ATTEMPTS_PER_LESSER_NODE) % lesser.length;
    return lesser.slice(turn, turn + 1);
  }
}

function keyOf({ name }: AccessNode, method: AccessMethod | undefined): string {
  return method === undefined ? name : `${name} ${method}`;
}
