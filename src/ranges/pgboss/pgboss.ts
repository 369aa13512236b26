// What `loadQueue` loads: nothing of it is loaded by those who keep their store in a directory.
export { SharedQueue, WORK_VERSION } from './SharedQueue.js';
