import type { AccountIndex } from '../../src/storage/port/AccountIndex.js';

/** The account index of a store that has none. */
export const accountsOff: AccountIndex = {
  coverage: () => undefined,
  page: () => Promise.reject(new Error('the account index is off')),
  extend: () => Promise.resolve(),
};
