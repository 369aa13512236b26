/** What a slot is for: the lowest missing height of the live range, any other height of it, or a range of history. */
export type SlotUse = 'lowest' | 'other' | 'history';

/**
 * Slots of each endpoint that only the lowest missing height may take: only it moves the watermark, and it must not queue
 * behind calls of higher heights that hang until their deadline.
 */
const LOWEST_HEIGHT_RESERVE = 1;

/** The share of each endpoint's slots that history never takes, so that the live range always finds one free. */
const LIVE_RESERVE_SHARE = 1 / 4;

/** What is known of an endpoint: the slots taken for each use, and its pace. */
interface Endpoint extends Record<SlotUse, number> {
  /** How many calls at once it may get, by its answers so far, and when it last answered. */
  most: number;
  answeredAtMs: number;
}

export type EndpointSlots = ReturnType<typeof endpointSlots>;

/**
 * Counts the calls under way at each endpoint: those of the live range, and of all ranges of history together. History
 * gets the slots that the live range leaves: one that became free is offered to the live range first. An endpoint that answers
 * none of its calls in time gets fewer at once: large collections over a slow line would all be late, each time. Holds five
 * numbers per endpoint. `concurrency`: calls under way at once, per endpoint. `historyShare`: the share of history's slots that
 * it may use now, above 0; at least one per endpoint.
 */
export function endpointSlots(concurrency: number, historyShare = () => 1) {
  const endpoints = new Map<string, Endpoint>();
  const listeners = { live: new Set<() => void>(), history: new Set<() => void>() };
  /** Slots became free, and the listeners are still to be notified: until then history takes none. */
  let isNotifying = false;

  const endpointAt = (name: string): Endpoint => {
    const known = endpoints.get(name);
    if (known !== undefined) return known;
    const endpoint = { lowest: 0, other: 0, history: 0, most: concurrency, answeredAtMs: -Infinity };
    endpoints.set(name, endpoint);
    return endpoint;
  };
  const takenOf = ({ history, lowest, other }: Endpoint): number => lowest + other + history;
  const isFree = (name: string, use: SlotUse): boolean => {
    if (use === 'history' && isNotifying) return false;
    const endpoint = endpointAt(name);
    const { history, most, other } = endpoint;
    if (use === 'history') {
      const limit = Math.max(1, most - Math.ceil(most * LIVE_RESERVE_SHARE));
      const share = Math.max(1, Math.floor(limit * historyShare()));
      return takenOf(endpoint) < limit && history < share;
    }
    // With a single slot per endpoint, every use shares it.
    const limitForOthers = Math.max(1, most - LOWEST_HEIGHT_RESERVE);
    return takenOf(endpoint) < most && (use === 'lowest' || other < limitForOthers);
  };
  /** Without history there is no need to notify: the range that releases a slot knows. */
  const notify = (): void => {
    if (isNotifying || listeners.history.size === 0) return;
    isNotifying = true;
    queueMicrotask(() => {
      isNotifying = false;
      for (const callback of [...listeners.live, ...listeners.history]) callback();
    });
  };
  return {
    isFree,
    get inUse() {
      return [...endpoints.values()].reduce((sum, endpoint) => sum + takenOf(endpoint), 0);
    },
    /** Returns a function that releases the slot, once; `undefined` when none is free. */
    tryAcquire: (name: string, use: SlotUse): (() => void) | undefined => {
      if (!isFree(name, use)) return undefined;
      const endpoint = endpointAt(name);
      endpoint[use] += 1;
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        endpoint[use] -= 1;
        notify();
      };
    },
    /** Call it before the slot is released. A late call counts only if no other was answered since it was sent. */
    returned: (name: string, sentAtMs: number, answeredAtMs?: number): void => {
      const endpoint = endpointAt(name);
      if (answeredAtMs !== undefined) endpoint.most = Math.min(concurrency, endpoint.most + 1);
      else if (endpoint.answeredAtMs < sentAtMs) {
        const half = Math.max(1 + LOWEST_HEIGHT_RESERVE, Math.floor(endpoint.most / 2));
        endpoint.most = Math.min(concurrency, half);
      }
      endpoint.answeredAtMs = answeredAtMs ?? endpoint.answeredAtMs;
    },
    /**
     * Calls back soon after slots became free, the live range before history. Must not throw. Returns a function that
     * unsubscribes.
     */
    onFreed: (range: keyof typeof listeners, callback: () => void): (() => void) => {
      listeners[range].add(callback);
      return () => void listeners[range].delete(callback);
    },
    /** History may take more than before. */
    moreForHistory: notify,
  };
}
