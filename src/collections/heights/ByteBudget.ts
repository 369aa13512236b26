import type { HeightTable } from './HeightTable.js';

export interface ByteBudgetOptions {
  /** Bytes of received collections that may wait for their durable commit (`maxInFlightBytes`). */
  readonly limitBytes: number;
}

export interface ByteBudgetDependencies {
  readonly heights: Pick<HeightTable, 'bytesInHand' | 'lowestInHand'>;
}

/**
 * Admits collections by the bytes held between receipt and durable commit. The lowest incomplete height, which holds up
 * the watermark, is always admitted: refusing it would prevent the commit that frees the budget. No other height is
 * admitted beyond the limit: if the lowest one is complete, its commit is under way and frees the budget. Received bytes
 * always count, even beyond the limit.
 */
export class ByteBudget {
  readonly limitBytes: number;
  readonly #heights: ByteBudgetDependencies['heights'];

  constructor(options: ByteBudgetOptions, dependencies: ByteBudgetDependencies) {
    this.limitBytes = options.limitBytes;
    this.#heights = dependencies.heights;
  }

  get inFlightBytes(): number {
    return this.#heights.bytesInHand;
  }

  admits(height: number, bytes: number): boolean {
    if (this.inFlightBytes + bytes <= this.limitBytes) return true;
    const lowest = this.#heights.lowestInHand();
    return lowest?.status === 'collecting' && height <= lowest.height;
  }
}
