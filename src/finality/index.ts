export { WorkSignal } from '../jobqueue/index.js';
export { FinalizationListener } from './head/FinalizationListener.js';
export type { FinalizationListenerOptions } from './head/FinalizationListener.js';
export type { BlockVerdict } from './forks/GuaranteeReview.js';
export { FinalizedBlocks } from './blocks/FinalizedBlocks.js';
export type {
  FinalizedBlocksDependencies,
  FinalizedBlocksOptions,
  HeldUpBlock,
} from './blocks/FinalizedBlocks.js';
export type { ChainTrouble } from './forks/ForkResolver.js';
export type { BlockLink, SporkRoot } from './forks/LinkedBlocks.js';
