import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratchDirectory } from './program.js';

/** Certificates in `test/data/tls`, each with its key: both are for `localhost`. */
export type CertificateName = 'localhost' | 'renewed';

const tls = join(import.meta.dirname, '../data/tls');

export const clientCaFile = join(tls, 'client-ca-cert.pem');
export const clientCertificateFile = join(tls, 'client-cert.pem');
export const clientKeyFile = join(tls, 'client-key.pem');

export const certificateOf = (name: CertificateName): string => join(tls, `${name}-cert.pem`);
export const keyOf = (name: CertificateName): string => join(tls, `${name}-key.pem`);

/** Files of a guarded API that a test may change, and the flags that name them. */
export class TestSecrets {
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly tokensFile: string;

  constructor(tokens: string) {
    const directory = scratchDirectory();
    this.certificateFile = join(directory, 'certificate.pem');
    this.keyFile = join(directory, 'key.pem');
    this.tokensFile = join(directory, 'tokens');
    this.use('localhost');
    this.writeTokens(tokens);
  }

  use(name: CertificateName): void {
    copyFileSync(certificateOf(name), this.certificateFile);
    copyFileSync(keyOf(name), this.keyFile);
  }

  writeTokens(text: string): void {
    writeFileSync(this.tokensFile, text, { mode: 0o600 });
  }

  readonly tlsFlags = (): string[] => [
    ...['--api-tls-certificate-file', this.certificateFile, '--api-tls-key-file', this.keyFile],
  ];

  readonly flags = (): string[] => [...this.tlsFlags(), '--api-tokens-file', this.tokensFile];
}
