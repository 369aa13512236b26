/** How many recent blocks arrival times are learned from. */
const BLOCKS = 100;
/** Most samples, however many collections those blocks have. */
const MAX_SAMPLES = 512;
/** With fewer samples, collections are requested at once. */
const MIN_SAMPLES = 5;
/** A collection that was not there in time is assumed to take twice that time plus this. */
const GUESS_MS = 50;
/** The share of collections that should be there when they are first requested. */
const SHARE = 0.55;
/** What took longer was an outage, or was requested late: it says nothing about how long the next will take. */
const USUAL_MAX_MS = 2_000;
/** Bisection steps: finer than a tenth of a millisecond is pointless. */
const HALVINGS = 20;

/** When a node got one collection, after its block was known: it lacked it at `lackedMs`, and had it by `hadMs`. */
interface Arrival {
  readonly height: number;
  readonly lackedMs: number;
  readonly hadMs: number;
}

/** How long after a block is known its collections usually arrive at one node. */
class NodeArrivals {
  readonly #arrivals: Arrival[] = [];
  #usualMs: number | undefined;

  get usualMs(): number {
    return (this.#usualMs ??= this.#measure());
  }

  add(arrival: Arrival): void {
    this.#usualMs = undefined;
    this.#arrivals.push(arrival);
    const tooOld = arrival.height - BLOCKS;
    while (this.#arrivals.length > MAX_SAMPLES || (this.#arrivals[0]?.height ?? Infinity) <= tooOld)
      this.#arrivals.shift();
  }

  /**
   * The time by which SHARE of the collections had arrived. The exact arrival is unknown, only the two requests around
   * it: every moment between them counts as equally likely. So a node that was asked too late is asked earlier next time.
   */
  #measure(): number {
    if (this.#arrivals.length < MIN_SAMPLES) return 0;
    let low = 0;
    let high = Math.max(...this.#arrivals.map(({ hadMs }) => hadMs));
    for (let halving = 0; halving < HALVINGS; halving += 1) {
      const middle = (low + high) / 2;
      if (this.#shareBy(middle) < SHARE) low = middle;
      else high = middle;
    }
    return high;
  }

  #shareBy(atMs: number): number {
    let sum = 0;
    for (const { lackedMs, hadMs } of this.#arrivals) {
      if (hadMs <= atMs) sum += 1;
      else if (lackedMs < atMs) sum += (atMs - lackedMs) / (hadMs - lackedMs);
    }
    return sum / this.#arrivals.length;
  }
}

/**
 * A node has a new block before it has its collections. Learns how long each node takes, so that it is asked when it is
 * likely to have them. Bounded by the number of nodes, and MAX_SAMPLES for each.
 */
export class ArrivalTimes {
  readonly #nodes = new Map<string, NodeArrivals>();

  /** How long after a block is known it is best to ask this node for its collections; 0 while unknown. */
  usualMs(node: string): number {
    return this.#nodes.get(node)?.usualMs ?? 0;
  }

  came(node: string, arrival: Arrival): void {
    if (arrival.hadMs > USUAL_MAX_MS) return;
    let arrivals = this.#nodes.get(node);
    if (arrivals === undefined) {
      arrivals = new NodeArrivals();
      this.#nodes.set(node, arrivals);
    }
    arrivals.add(arrival);
  }

  /** The collection came from another node: guesses how long this one would have taken. */
  lacked(node: string, { height, lackedMs }: Pick<Arrival, 'height' | 'lackedMs'>): void {
    this.came(node, { height, lackedMs, hadMs: 2 * lackedMs + GUESS_MS });
  }
}
