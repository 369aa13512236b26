import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { TlsIdentity } from '../../api/index.js';
import { messageOf } from '../../runtime/index.js';
import { readSmallFile, unusable } from './readFile.js';

/** The files of `api.tls`. */
export interface TlsFiles {
  readonly certificateFile: string;
  readonly keyFile: string | undefined;
  readonly clientCaFile: string | undefined;
}

/** A certificate that matches its key. */
export interface Certificate {
  readonly identity: TlsIdentity;
  /** The first certificate of the file: the server's own. */
  readonly leaf: X509Certificate;
}

/** Reads certificate, key and authorities, and checks them. Expected errors: OperatorError `configuration`, which never quotes the key. */
export function readCertificate({
  certificateFile,
  clientCaFile,
  keyFile = certificateFile,
}: TlsFiles): Certificate {
  const [ofCertificate, ofKey] = ['api.tls.certificateFile', 'api.tls.keyFile'];
  const certificate = readSmallFile(certificateFile, ofCertificate);
  const key = keyFile === certificateFile ? certificate : readSmallFile(keyFile, ofKey);
  const leaf = leafOf(certificate, certificateFile, ofCertificate);
  const privateKey = attempt(
    () => createPrivateKey(key),
    (error) => unusable(keyFile, ofKey, whyNoKey(error)),
  );
  if (!leaf.checkPrivateKey(privateKey)) {
    const why = `it is not the key of the certificate in ${certificateFile}; use the two that belong together`;
    throw unusable(keyFile, ofKey, why);
  }
  const clientCa = clientCaFile && readAuthorities(clientCaFile);
  // OpenSSL refuses more, such as a key that is too short.
  attempt(
    () => createSecureContext({ cert: certificate, key }),
    (error) => unusable(certificateFile, ofCertificate, messageOf(error)),
  );
  return { identity: { certificate, key: pemOf(privateKey), clientCa }, leaf };
}

/** SHA-256 of the first certificate of a file, which may be without a key. Expected errors: as `readCertificate`. */
export function readFingerprint(certificateFile: string): string {
  const setting = 'api.tls.certificateFile';
  const text = readSmallFile(certificateFile, setting);
  return leafOf(text, certificateFile, setting).fingerprint256;
}

export function expiryOf({ validTo }: X509Certificate): Date {
  return new Date(validTo);
}

function readAuthorities(file: string): string {
  const setting = 'api.tls.clientCaFile';
  const text = readSmallFile(file, setting);
  leafOf(text, file, setting);
  return text;
}

function leafOf(text: string, file: string, setting: string): X509Certificate {
  return attempt(
    () => new X509Certificate(text),
    () => unusable(file, setting, 'it has no certificate in PEM'),
  );
}

/** Only the key, without the rest of its file. */
function pemOf(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function whyNoKey(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'ERR_MISSING_PASSPHRASE'
    ? 'it needs a passphrase, and a daemon cannot ask for one; save it without a passphrase, readable only by its user'
    : 'it has no private key in PEM';
}

function attempt<T>(work: () => T, refusal: (error: unknown) => Error): T {
  try {
    return work();
  } catch (error) {
    throw refusal(error);
  }
}
