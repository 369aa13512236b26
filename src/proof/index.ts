export { BlockProver, invalidBlockReasons } from './blocks/BlockProver.js';
export type { BlockProverOptions, InvalidBlockReason, Proving } from './blocks/BlockProver.js';
export { checkStoredProof, readHeader } from './blocks/storedProof.js';
export type { StoredHeader } from './blocks/storedProof.js';
export { provenFinal } from './certificates/provenFinal.js';
export type { Certificate } from './certificates/verifyCertificate.js';
export type { SigningKey } from './certificates/signCertificate.js';
export type { Committee } from './committee/committee.js';
export { readProtocolState } from './committee/protocolState.js';
export { readCommit, readSetup } from './committee/serviceEvents.js';
export { BlockHasher, payloadHash } from './ids/BlockHasher.js';
export type { BlockForm } from './ids/forms.js';

/** Signs and verifies certificates. With the curve's package, which takes 50 ms to load. */
export const loadCertificates = async () => ({
  ...(await import('./certificates/signCertificate.js')),
  ...(await import('./certificates/verifyCertificate.js')),
});
