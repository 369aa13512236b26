export { followHeads, type FinalizationListener } from './head/followHeads.js';
export { finalizedBlocks, type FinalizedBlocksOptions } from './blocks/finalizedBlocks.js';
export type { RootParent } from './forks/linkedBlocks.js';
export { NAMED_BY } from './proven/FinalityAnchor.js';
export type { NamedBlock } from './proven/FinalityAnchor.js';
export { FinalityProver } from './proven/FinalityProver.js';
export { ProofBackfill } from './proven/ProofBackfill.js';
