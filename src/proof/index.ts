export { BlockProver } from './blocks/BlockProver.js';
export type { Proving } from './blocks/BlockProver.js';
export { checkStoredProof, preimagesOf, readHeader } from './blocks/storedProof.js';
export type { BlockPreimages, StoredHeader } from './blocks/storedProof.js';
export { certificateThread } from './certificates/certificateThread.js';
export type { CertificatePort, CertificateThread } from './certificates/certificateThread.js';
export { CertificateThreadError } from './certificates/CertificateThreadError.js';
export { provenFinal } from './certificates/provenFinal.js';
export type { Certificate, CertificateVerdict } from './certificates/provenFinal.js';
export { committeesIn, lastViewOf, weightOf } from './committee/committee.js';
export type { Committee, EpochState } from './committee/committee.js';
export { readParts } from './committee/protocolState.js';
export type { StateParts } from './committee/protocolState.js';
export { readCommit, readSetup } from './committee/serviceEvents.js';
export { checkDocument } from './documents/checkDocument.js';
export type { VerifyCertificate } from './documents/checkDocument.js';
export { BlockHasher, payloadHash } from './ids/BlockHasher.js';
export type { BlockForm } from './ids/forms.js';

/** Verifies certificates. Loaded on demand: the package of the curve takes 50 ms. */
export const loadCertificates = () => import('./certificates/index.js');
