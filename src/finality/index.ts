export { WorkSignal } from '../jobqueue/index.js';
export { FinalizationListener } from './FinalizationListener.js';
export type { FinalizationListenerOptions } from './FinalizationListener.js';
export type { BlockVerdict } from './BlockReview.js';
export { FinalizedBlocks } from './FinalizedBlocks.js';
export type { FinalizedBlocksDependencies, FinalizedBlocksOptions, HeldUpBlock } from './FinalizedBlocks.js';
export type { ChainTrouble } from './ForkResolver.js';
export type { BlockLink, SporkRoot } from './LinkedBlocks.js';
