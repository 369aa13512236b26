export { loadConfig } from './daemon.js';
export type { DaemonConfig, LoadedConfig } from './daemon.js';
export { devnetSettings } from './devnet.js';
export { loadSettings, suggestion } from './load.js';
export { configurationReference, flagHelp } from './reference.js';
export { daemonSettings, environmentOf, flagOf, MAX_HEIGHT } from './settings.js';
export type { Setting, Settings } from './settings.js';
export { choice, integer, optional, optionalText, readHeightsToFill } from './formats.js';
export type { HeightsToFill } from './formats.js';
