export { BlockProver, invalidBlockReasons } from './blocks/BlockProver.js';
export type { BlockProverOptions, InvalidBlockReason, Proving } from './blocks/BlockProver.js';
export { checkStoredProof, readHeader } from './blocks/storedProof.js';
export type { StoredHeader } from './blocks/storedProof.js';
export { BlockHasher, payloadHash } from './ids/BlockHasher.js';
export type { BlockForm } from './ids/forms.js';
