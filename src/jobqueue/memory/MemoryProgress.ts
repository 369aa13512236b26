import type { ConsumerProgress } from '../types.js';

/** Progress in memory: for tests and examples. */
export class MemoryProgress implements ConsumerProgress {
  #index: number | undefined;

  constructor(index?: number) {
    this.#index = index;
  }

  processedIndex(): number | undefined {
    return this.#index;
  }

  setProcessedIndex(index: number): void {
    this.#index = index;
  }
}
