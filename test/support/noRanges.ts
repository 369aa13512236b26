import type { IndexStore } from '../../src/storage/index.js';
import type { RangeBook } from '../../src/storage/port/RangeBook.js';

/** The ranges of a store that keeps none but its live one. */
export const noRanges: RangeBook = {
  plans: () => [],
  open: () => [],
  change: () => Promise.reject(new Error('this store keeps no ranges')),
  run: () => Promise.reject(new Error('this store keeps no ranges')),
  release: () => undefined,
};

/** The health of a store that is never damaged. */
export const neverDamaged: Pick<IndexStore, 'check' | 'heal' | 'healing' | 'onDamage'> = {
  check: () => Promise.resolve({ bytes: 0, damages: [] }),
  heal: () => Promise.resolve([]),
  healing: () => [],
  onDamage: () => undefined,
};
