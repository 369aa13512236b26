// What end-to-end tests want, by one door: what all tests may want, and daemons.
export * from './index.js';
export * from './commandLine.js';
export * from './lastingPort.js';
export * from './provenStore.js';
export * from './runningDaemon.js';
export * from './storeDump.js';
export * from './together.js';
