import type { RangeBook } from '../../src/storage/port/RangeBook.js';

/** The ranges of a store that keeps none but its live one. */
export const noRanges: RangeBook = {
  plans: () => [],
  open: () => [],
  change: () => Promise.reject(new Error('this store keeps no ranges')),
  run: () => Promise.reject(new Error('this store keeps no ranges')),
  release: () => undefined,
};
