import type { HeightTable } from './HeightTable.js';

export interface ByteBudgetOptions {
  /** Bytes of received collections that may wait for their durable commit (`maxInFlightBytes`). */
  readonly limitBytes: number;
}

export interface ByteBudgetDependencies {
  readonly heights: Pick<HeightTable, 'bytesInHand' | 'lowestInHand'>;
}

/**
 * Says whether more may be taken, by the bytes of collections between their receipt and their durable commit.
 * The height that holds up the watermark is always admitted: holding it back would hold back the very commit that frees
 * the budget. No other is: while the lowest height is complete, its commit is on the way, and however slow the disk is, no
 * more than the budget gathers behind it. What was received is always counted, also beyond the limit.
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
