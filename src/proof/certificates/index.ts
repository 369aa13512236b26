export * from './bls.js';
export * from './verifyCertificate.js';
export * from './serveCertificates.js';
