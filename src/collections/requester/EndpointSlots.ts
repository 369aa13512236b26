export interface EndpointSlotsOptions {
  /** Calls under way at once, per endpoint. */
  readonly concurrency: number;
}

/** Who takes a slot: the lowest missing height, or any other. */
export type SlotUse = 'lowest' | 'other';

/**
 * Of each endpoint's slots, those that only the lowest missing height may take: it alone moves the watermark, and must
 * not stand behind calls of higher heights that hang until their deadline.
 */
const LOWEST_HEIGHT_RESERVE = 1;

/** Counts the calls under way at each endpoint. Holds two numbers per endpoint that has any. */
export class EndpointSlots {
  readonly #concurrency: number;
  readonly #limitForOthers: number;
  readonly #taken = new Map<string, Record<SlotUse, number>>();

  constructor(options: EndpointSlotsOptions) {
    this.#concurrency = options.concurrency;
    // An endpoint with a single slot serves everyone with it.
    this.#limitForOthers = Math.max(1, options.concurrency - LOWEST_HEIGHT_RESERVE);
  }

  isFree(endpoint: string, use: SlotUse): boolean {
    const taken = this.#taken.get(endpoint);
    if (taken === undefined) return true;
    if (taken.lowest + taken.other >= this.#concurrency) return false;
    return use === 'lowest' || taken.other < this.#limitForOthers;
  }

  /** False when no slot is free. */
  tryAcquire(endpoint: string, use: SlotUse): boolean {
    if (!this.isFree(endpoint, use)) return false;
    const taken = this.#taken.get(endpoint) ?? { lowest: 0, other: 0 };
    taken[use] += 1;
    this.#taken.set(endpoint, taken);
    return true;
  }

  /** Gives back a slot that was acquired for this use. */
  release(endpoint: string, use: SlotUse): void {
    const taken = this.#taken.get(endpoint);
    if (taken === undefined || taken[use] === 0) throw new Error('a slot was released twice');
    taken[use] -= 1;
    if (taken.lowest + taken.other === 0) this.#taken.delete(endpoint);
  }
}
