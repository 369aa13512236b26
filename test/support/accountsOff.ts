import type { AccountIndex } from '../../src/storage/port/AccountIndex.js';

export const accountsOff: AccountIndex = {
  coverage: () => undefined,
  page: () => Promise.reject(new Error('the account index is off')),
  extend: () => Promise.resolve(),
};
