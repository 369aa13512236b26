export { followHeads, type FinalizationListener } from './head/followHeads.js';
export { finalizedBlocks, type FinalizedBlocksOptions } from './blocks/finalizedBlocks.js';
export type { RootParent } from './forks/linkedBlocks.js';
export { NAMED_BY } from './proven/finalityAnchor.js';
export type { NamedBlock } from './proven/finalityAnchor.js';
export { finalityProver, type FinalityProver } from './proven/finalityProver.js';
export { proofBackfill } from './proven/proofBackfill.js';
