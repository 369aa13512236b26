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
 * gets the slots that the live range leaves: while the live range waits for a slot, history takes none. Holds three
 * numbers per endpoint in use.
 */
export class EndpointSlots {
  readonly #concurrency: number;
  readonly #limitForOthers: number;
  readonly #limitForHistory: number;
  readonly #historyShare: () => number;
  readonly #taken = new Map<string, Record<SlotUse, number>>();
  /** Endpoints whose slots were all taken when the live range wanted one. */
  readonly #liveWaits = new Set<string>();
  readonly #listeners = { live: new Set<() => void>(), history: new Set<() => void>() };
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
    // With a single slot per endpoint, every use shares it.
    this.#limitForOthers = Math.max(1, concurrency - LOWEST_HEIGHT_RESERVE);
    this.#limitForHistory = Math.max(1, concurrency - Math.ceil(concurrency * LIVE_RESERVE_SHARE));
  }

  isFree(endpoint: string, use: SlotUse): boolean {
    const taken = this.#taken.get(endpoint);
    if (taken === undefined) return true;
    const all = taken.lowest + taken.other + taken.history;
    if (use === 'history') {
      const most = Math.max(1, Math.floor(this.#limitForHistory * this.#historyShare()));
      return all < this.#limitForHistory && taken.history < most && !this.#liveWaits.has(endpoint);
    }
    const isFree = all < this.#concurrency && (use === 'lowest' || taken.other < this.#limitForOthers);
    if (!isFree && taken.history > 0) this.#liveWaits.add(endpoint);
    return isFree;
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

  /**
   * Calls back soon after slots became free, the live range before history. Must not throw. Returns a function that
   * unsubscribes.
   */
  onFreed(range: 'live' | 'history', callback: () => void): () => void {
    const listeners = this.#listeners[range];
    listeners.add(callback);
    return () => {
      listeners.delete(callback);
      // It may have been waiting.
      this.#tell();
    };
  }

  /** History may take more than before. */
  moreForHistory(): void {
    this.#tell();
  }

  /** Without history nobody needs to be notified: the range that releases a slot knows. */
  #tell(): void {
    const { live, history } = this.#listeners;
    if (history.size === 0) this.#liveWaits.clear();
    if (this.#isTelling || history.size === 0) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      this.#liveWaits.clear();
      for (const callback of [...live, ...history]) callback();
    });
  }
}
