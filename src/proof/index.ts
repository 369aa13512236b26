export { BlockProver, invalidBlockReasons } from './blocks/BlockProver.js';
export type { BlockProverOptions, InvalidBlockReason, Proving } from './blocks/BlockProver.js';
export { checkStoredProof, preimagesOf, readHeader } from './blocks/storedProof.js';
export type { BlockPreimages, StoredHeader } from './blocks/storedProof.js';
export { CertificateThread, CertificateThreadError } from './certificates/CertificateThread.js';
export type { CertificatePort, StateReading } from './certificates/CertificateThread.js';
export { certificateIn, provenFinal } from './certificates/provenFinal.js';
export { CURRENT_RULES } from './certificates/rules.js';
export type { SigningKey } from './certificates/signCertificate.js';
export type { Certificate, CertificateVerdict } from './certificates/verifyCertificate.js';
export { weightOf } from './committee/committee.js';
export type { Committee } from './committee/committee.js';
export { committeesIn, EpochCommittees } from './committee/EpochCommittees.js';
export type { EpochState } from './committee/EpochCommittees.js';
export { readParts, readProtocolState } from './committee/protocolState.js';
export type { StateParts } from './committee/protocolState.js';
export { readCommit, readSetup } from './committee/serviceEvents.js';
export { checkDocument } from './documents/checkDocument.js';
export type { VerifyCertificate } from './documents/checkDocument.js';
export { BlockHasher, payloadHash } from './ids/BlockHasher.js';
export type { BlockForm } from './ids/forms.js';

/** Signs and verifies certificates. With the curve's package, which takes 50 ms to load. */
export const loadCertificates = async () => ({
  ...(await import('./certificates/signCertificate.js')),
  ...(await import('./certificates/verifyCertificate.js')),
  ...(await import('./certificates/serveCertificates.js')),
  ...(await import('./certificates/rules.js')),
});
