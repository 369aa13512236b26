export { FinalizationListener } from './head/FinalizationListener.js';
export { FinalizedBlocks } from './blocks/FinalizedBlocks.js';
export type { FinalizedBlocksOptions } from './blocks/FinalizedBlocks.js';
export type { RootParent } from './forks/LinkedBlocks.js';
export { NAMED_BY } from './proven/FinalityAnchor.js';
export type { NamedBlock } from './proven/FinalityAnchor.js';
export { FinalityProver } from './proven/FinalityProver.js';
export { ProofBackfill } from './proven/ProofBackfill.js';
