import type { AccessNode, NodeHealth } from '../types.js';

/** Every n-th attempt goes to a node of worse health: it may be the only one that has the data. */
const ATTEMPTS_PER_LESSER_NODE = 3;

const BEST_FIRST: readonly NodeHealth[] = ['healthy', 'failing', 'set_aside', 'unknown', 'foreign'];

/** Which node to ask next, or how long until one may be asked. */
export type NodeChoice =
  | { readonly node: AccessNode }
  /** `retryInMs` is `undefined` when a slot has to become free first. */
  | { readonly node: undefined; readonly retryInMs: number | undefined };

/** The state of the nodes for one question. */
interface NodeReadiness {
  /** The node has a free slot for a call now. */
  isFree(node: AccessNode): boolean;
  /** Milliseconds until the node takes a call. */
  delayMs(node: AccessNode): number;
  /** The worse of the node's health and that of the call to be used. */
  healthOf(node: AccessNode): NodeHealth;
}

/**
 * Remembers, for one question that is repeated until answered, which nodes failed to answer. The nodes of the best
 * available health are asked in turn, best first; if they are only busy, the question waits for them, rather than going
 * to one that is failing or penalized. Those get one attempt in three, so that data can be found even if its only holder
 * once failed. Bounded by the number of nodes.
 */
export class NodeRotation {
  #failures = 0;
  /** The nodes that failed since the last round began. */
  #asked: Set<string> | undefined;
  #last: string | undefined;

  /** Attempts that failed since the last success. */
  get failures(): number {
    return this.#failures;
  }

  failed(node: AccessNode): void {
    this.#failures += 1;
    this.declined(node);
  }

  /** The node refused because it was asked too early or too often: prefers the others, and counts no failure. */
  declined(node: AccessNode): void {
    this.#last = node.name;
    (this.#asked ??= new Set()).add(node.name);
  }

  succeeded(): void {
    this.#failures = 0;
    this.#asked = undefined;
    this.#last = undefined;
  }

  /** Chooses among nodes given best first. */
  choose(nodes: readonly AccessNode[], readiness: NodeReadiness): NodeChoice {
    const health = bestOf(nodes, readiness);
    const best = nodes.filter((node) => readiness.healthOf(node) === health);
    const chosen =
      this.#lesserTurn(nodes, health, readiness) ??
      this.#untried(best, readiness) ??
      best.find((node) => node.name !== this.#last && isReady(node, readiness)) ??
      best.find((node) => isReady(node, readiness));
    if (chosen !== undefined) return { node: chosen };
    const delays = best.filter((node) => readiness.isFree(node)).map((node) => readiness.delayMs(node));
    return { node: undefined, retryInMs: delays.length > 0 ? Math.min(...delays) : undefined };
  }

  #untried(best: readonly AccessNode[], readiness: NodeReadiness): AccessNode | undefined {
    const asked = this.#asked;
    if (asked === undefined) return undefined;
    if (best.every((node) => asked.has(node.name))) {
      this.#asked = undefined;
      return undefined;
    }
    return best.find((node) => !asked.has(node.name) && isReady(node, readiness));
  }

  #lesserTurn(
    nodes: readonly AccessNode[],
    bestHealth: NodeHealth | undefined,
    readiness: NodeReadiness,
  ): AccessNode | undefined {
    if (this.#failures % ATTEMPTS_PER_LESSER_NODE !== ATTEMPTS_PER_LESSER_NODE - 1) return undefined;
    const lesser = nodes.filter((node) => readiness.healthOf(node) !== bestHealth);
    const turn = lesser[Math.floor(this.#failures / ATTEMPTS_PER_LESSER_NODE) % lesser.length];
    return turn !== undefined && isReady(turn, readiness) ? turn : undefined;
  }
}

/** The best health of any of the nodes. */
function bestOf(nodes: readonly AccessNode[], readiness: NodeReadiness): NodeHealth | undefined {
  const present = new Set(nodes.map((node) => readiness.healthOf(node)));
  return BEST_FIRST.find((health) => present.has(health));
}

function isReady(node: AccessNode, readiness: NodeReadiness): boolean {
  return readiness.isFree(node) && readiness.delayMs(node) <= 0;
}
