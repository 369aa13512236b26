export type { ToldHead } from './ports.js';
export { HeadWitnesses } from './head/HeadWitnesses.js';
export { FinalizationListener } from './head/FinalizationListener.js';
export { FinalizedBlocks } from './blocks/FinalizedBlocks.js';
export type {
  FinalizedBlocksDependencies,
  FinalizedBlocksOptions,
  HeldUpBlock,
} from './blocks/FinalizedBlocks.js';
export type { ChainTrouble } from './forks/ForkResolver.js';
export type { BlockLink, RootParent } from './forks/LinkedBlocks.js';
export { NAMED_BY } from './proven/FinalityAnchor.js';
export type { NamedBlock } from './proven/FinalityAnchor.js';
export { FinalityProver } from './proven/FinalityProver.js';
export { ProofBackfill } from './proven/ProofBackfill.js';
export type { ProofBackfillDependencies } from './proven/ProofBackfill.js';
export type { FinalityProverDependencies, FinalityStatus } from './proven/FinalityProver.js';
