import type { HeightRecord } from './HeightRecord.js';

/** Of a record: what the budget counts of it. */
type Holding = Pick<HeightRecord, 'bytes'>;

export interface ByteBudgetOptions {
  /** Bytes of received collections that may wait for their durable commit (`maxInFlightBytes`). */
  readonly limitBytes: number;
}

export interface ByteBudgetDependencies {
  /** The lowest height that is not durable, while it lacks a collection. */
  holdingUp(): number | undefined;
}

/**
 * Counts the bytes of collections between their receipt and their durable commit, and says whether more may be taken.
 * The height that holds up the watermark is always admitted: holding it back would hold back the very commit that frees
 * the budget. No other is: while the lowest height is complete, its commit is on the way, and however slow the disk is, no
 * more than the budget gathers behind it. What was received is always counted, also beyond the limit.
 */
export class ByteBudget {
  readonly limitBytes: number;
  readonly #holdingUp: () => number | undefined;
  #inFlightBytes = 0;

  constructor(options: ByteBudgetOptions, dependencies: ByteBudgetDependencies) {
    this.limitBytes = options.limitBytes;
    this.#holdingUp = () => dependencies.holdingUp();
  }

  get inFlightBytes(): number {
    return this.#inFlightBytes;
  }

  admits(height: number, bytes: number): boolean {
    if (this.#inFlightBytes + bytes <= this.limitBytes) return true;
    const lowest = this.#holdingUp();
    return lowest !== undefined && height <= lowest;
  }

  /** Adds to what the height holds. */
  reserve(record: Holding, bytes: number): void {
    record.bytes += bytes;
    this.#inFlightBytes += bytes;
  }

  /** Gives back all that the height holds, which may be nothing. */
  release(record: Holding): void {
    this.#inFlightBytes -= record.bytes;
    record.bytes = 0;
  }
}
