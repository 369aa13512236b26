// Loaded by `loadQueue`, so that a store in a directory does not load pg-boss.
export { SharedQueue } from './SharedQueue.js';
