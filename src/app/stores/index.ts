export { backfillOf, commandStore, plannedHeightOf } from './historyAtRest.js';
export { openStoreReadOnly } from './openStore.js';
