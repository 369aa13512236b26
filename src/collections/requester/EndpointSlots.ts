/** What a slot is for: the lowest missing height of the live range, any other height of it, or a range of history. */
export type SlotUse = 'lowest' | 'other' | 'history';

/**
 * Slots of each endpoint that only the lowest missing height may take: only it moves the watermark, and it must not queue
 * behind calls of higher heights that hang until their deadline.
 */
const LOWEST_HEIGHT_RESERVE = 1;

/** The share of each endpoint's slots that history never takes, so that the live range always finds one free. */
const LIVE_RESERVE_SHARE = 1 / 4;

/**
 * Counts the calls under way at each endpoint: those of the live range, and of all ranges of history together. History
 * gets the slots that the live range leaves: one that became free is offered to the live range first. An endpoint that answers
 * none of its calls in time gets fewer at once: large collections over a slow line would all be late, each time. Holds five
 * numbers per endpoint.
 */
export class EndpointSlots {
  readonly #concurrency: number;
  readonly #historyShare: () => number;
  readonly #taken = new Map<string, Record<SlotUse, number>>();
  /** How many calls at once each endpoint has shown to answer, and when it answered last. */
  readonly #paces = new Map<string, { readonly most: number; readonly answeredAtMs: number }>();
  readonly #listeners = { live: new Set<() => void>(), history: new Set<() => void>() };
  /** Slots became free, and nobody has been told yet: until then history takes none. */
  #isTelling = false;

  /**
   * `concurrency`: calls under way at once, per endpoint. `historyShare`: the share of history's slots that it may use now,
   * above 0; at least one per endpoint.
   */
  constructor(
    { concurrency }: { readonly concurrency: number },
    { historyShare = () => 1 }: { readonly historyShare?: () => number } = {},
  ) {
    this.#historyShare = historyShare;
    this.#concurrency = concurrency;
  }

  isFree(endpoint: string, use: SlotUse): boolean {
    if (use === 'history' && this.#isTelling) return false;
    const taken = this.#taken.get(endpoint);
    if (taken === undefined) return true;
    const all = taken.lowest + taken.other + taken.history;
    const { most } = this.#paceOf(endpoint);
    if (use === 'history') {
      const limit = Math.max(1, most - Math.ceil(most * LIVE_RESERVE_SHARE));
      const share = Math.max(1, Math.floor(limit * this.#historyShare()));
      return all < limit && taken.history < share;
    }
    // With a single slot per endpoint, every use shares it.
    const limitForOthers = Math.max(1, most - LOWEST_HEIGHT_RESERVE);
    return all < most && (use === 'lowest' || taken.other < limitForOthers);
  }

  get inUse(): number {
    return [...this.#taken.values()].reduce(
      (sum, { lowest, other, history }) => sum + lowest + other + history,
      0,
    );
  }

  /** Returns a function that releases the slot, once; `undefined` when none is free. */
  tryAcquire(endpoint: string, use: SlotUse): (() => void) | undefined {
    if (!this.isFree(endpoint, use)) return undefined;
    const taken = this.#taken.get(endpoint) ?? { lowest: 0, other: 0, history: 0 };
    taken[use] += 1;
    this.#taken.set(endpoint, taken);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      taken[use] -= 1;
      if (taken.lowest + taken.other + taken.history === 0) this.#taken.delete(endpoint);
      this.#tell();
    };
  }

  /** Call it before the slot is released. A call that was late matters where no other was answered since it was sent. */
  returned(endpoint: string, sentAtMs: number, answeredAtMs?: number): void {
    const before = this.#paceOf(endpoint);
    if (answeredAtMs === undefined && before.answeredAtMs >= sentAtMs) return;
    const wanted =
      answeredAtMs === undefined
        ? Math.max(1 + LOWEST_HEIGHT_RESERVE, Math.floor(before.most / 2))
        : before.most + 1;
    const most = Math.min(this.#concurrency, wanted);
    this.#paces.set(endpoint, { most, answeredAtMs: answeredAtMs ?? before.answeredAtMs });
  }

  #paceOf(endpoint: string) {
    return this.#paces.get(endpoint) ?? { most: this.#concurrency, answeredAtMs: -Infinity };
  }

  /**
   * Calls back soon after slots became free, the live range before history. Must not throw. Returns a function that
   * unsubscribes.
   */
  onFreed(range: 'live' | 'history', callback: () => void): () => void {
    const listeners = this.#listeners[range];
    listeners.add(callback);
    return () => void listeners.delete(callback);
  }

  /** History may take more than before. */
  moreForHistory(): void {
    this.#tell();
  }

  /** Without history nobody needs to be notified: the range that releases a slot knows. */
  #tell(): void {
    const { live, history } = this.#listeners;
    if (this.#isTelling || history.size === 0) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const callback of [...live, ...history]) callback();
    });
  }
}
