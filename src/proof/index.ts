export { BlockProver, invalidBlockReasons } from './blocks/BlockProver.js';
export type { BlockProverOptions, InvalidBlockReason, Proving } from './blocks/BlockProver.js';
export { checkStoredProof, readHeader } from './blocks/storedProof.js';
export type { StoredHeader } from './blocks/storedProof.js';
export { BlockHasher, payloadHash } from './ids/BlockHasher.js';
export type { BlockForm } from './ids/forms.js';
export {
  CertificateThread,
  CertificateThreadError,
  serveCertificates,
} from './certificates/CertificateThread.js';
export type { CertificatePort, StateReading } from './certificates/CertificateThread.js';
export { certificateIn, provenFinal } from './certificates/provenFinal.js';
export { CURRENT_RULES } from './certificates/verifyCertificate.js';
export type { Certificate, CertificateVerdict } from './certificates/verifyCertificate.js';
export { weightOf } from './committee/committee.js';
export type { Committee } from './committee/committee.js';
export { EpochCommittees } from './committee/EpochCommittees.js';
export type { EpochState } from './committee/EpochCommittees.js';
