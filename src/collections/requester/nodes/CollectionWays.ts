import type { AccessNode } from '../../../access/index.js';

import type { CollectionWay } from '../../ports.js';

const FULL = 'GetFullCollectionByID';
const LIGHT = 'GetCollectionByID';

/** After this time without an answer a call is abandoned for another call or node, if there is one. */
const PATIENCE_MS = 4_000;
/** A node that is slow but answers gets this multiple of the slowest of its recent answers. */
const PATIENCE_MULTIPLE = 2;
/** The slowest answer decays by this factor with every answer. */
const SLOWEST_FADES = 0.95;

export interface CollectionWaysOptions {
  /** The deadline of a call that has no alternative. */
  readonly timeoutMs: number;
}

/** One node's record: the ways that failed since they last worked, and the calls under way. */
interface WaysOfNode {
  readonly doubted: Set<CollectionWay>;
  readonly underWay: Record<CollectionWay, number>;
}

/**
 * Which call to use for collections with each node, and how long it may take. Prefers the full collection; `supports` says
 * when that call is resting. A way that failed is retried with a single call at a time while the other way works. Two
 * counts and two flags per node that was ever asked.
 */
export class CollectionWays {
  readonly #timeoutMs: number;
  readonly #nodes = new Map<string, WaysOfNode>();
  #slowestMs = 0;

  constructor(options: CollectionWaysOptions) {
    this.#timeoutMs = options.timeoutMs;
  }

  /** `deniedBy`: the call by which this node keeps denying the collection. */
  wayTo(node: AccessNode, deniedBy?: CollectionWay): CollectionWay {
    if (!node.supports(FULL)) return LIGHT;
    if (deniedBy === undefined && !this.#isBeingTried(node.name)) return FULL;
    return deniedBy !== LIGHT && node.supports(LIGHT) ? LIGHT : FULL;
  }

  sent(node: AccessNode, way: CollectionWay): void {
    this.#of(node.name).underWay[way] += 1;
  }

  returned(node: AccessNode, way: CollectionWay): void {
    this.#of(node.name).underWay[way] -= 1;
  }

  failed(node: AccessNode, way: CollectionWay): void {
    this.#of(node.name).doubted.add(way);
  }

  succeeded(node: AccessNode, way: CollectionWay): void {
    this.#nodes.get(node.name)?.doubted.delete(way);
  }

  /** The call returned a collection after this long. */
  answered(durationMs: number): void {
    this.#slowestMs = Math.max(durationMs, this.#slowestMs * SLOWEST_FADES);
  }

  /** How long a call may take. `others`: other ways and nodes that may still answer for this collection. */
  timeoutMs(others: number): number {
    if (others <= 0) return this.#timeoutMs;
    return Math.min(this.#timeoutMs, Math.max(PATIENCE_MS, PATIENCE_MULTIPLE * this.#slowestMs));
  }

  /** The full call failed recently, one such call is testing whether it works again, and the light one works. */
  #isBeingTried(name: string): boolean {
    const ways = this.#nodes.get(name);
    return (
      ways !== undefined && ways.doubted.has(FULL) && !ways.doubted.has(LIGHT) && ways.underWay[FULL] > 0
    );
  }

  #of(name: string): WaysOfNode {
    let ways = this.#nodes.get(name);
    if (ways === undefined) {
      ways = { doubted: new Set(), underWay: { [FULL]: 0, [LIGHT]: 0 } };
      this.#nodes.set(name, ways);
    }
    return ways;
  }
}

/** The ways that a node accepts at present. */
export function waysOf(node: AccessNode): CollectionWay[] {
  return ([FULL, LIGHT] as const).filter((way) => node.supports(way));
}
