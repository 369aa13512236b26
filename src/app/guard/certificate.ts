import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { TlsIdentity } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { messageOf } from '../../runtime/index.js';
import { readSmallFile, unusable } from './tokens.js';

const SETTING = 'api.tls.certificateFile';

/**
 * Reads certificate, key and authorities, the files of `api.tls`, and checks that they fit. Expected errors: OperatorError `configuration`,
 * which never quotes the key.
 */
export function readCertificate(
  certificateFile: string,
  { clientCaFile, keyFile = certificateFile }: Pick<DaemonConfig['api']['tls'], 'clientCaFile' | 'keyFile'>,
): TlsIdentity {
  const ofKey = 'api.tls.keyFile';
  const certificate = readSmallFile(certificateFile, SETTING);
  const key = keyFile === certificateFile ? certificate : readSmallFile(keyFile, ofKey);
  const leaf = firstOf(certificate, certificateFile, SETTING);
  const privateKey = attempt(
    () => createPrivateKey(key),
    () =>
      unusable(
        keyFile,
        ofKey,
        // Which error Node.js throws depends on its OpenSSL.
        key.includes('ENCRYPTED')
          ? 'it needs a passphrase, and a daemon cannot ask for one; save it without a passphrase, readable only by its user'
          : 'it has no private key in PEM',
      ),
  );
  if (!leaf.checkPrivateKey(privateKey)) {
    const why = `it is not the key of the first certificate in ${certificateFile}; use the two that belong together, its chain behind it`;
    throw unusable(keyFile, ofKey, why);
  }
  const ofAuthorities = 'api.tls.clientCaFile';
  const clientCa = clientCaFile && readSmallFile(clientCaFile, ofAuthorities);
  if (clientCa) firstOf(clientCa, clientCaFile, ofAuthorities);
  // OpenSSL refuses more, such as a key that is too short.
  attempt(
    () => createSecureContext({ cert: certificate, key }),
    (error) => unusable(certificateFile, SETTING, messageOf(error)),
  );
  // Only the key, without the rest of its file.
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  return { certificate, key: pem, clientCa };
}

/** SHA-256 of the first certificate of a file, which need not hold a key. Expected errors: as `readCertificate`. */
export function readFingerprint(certificateFile: string): string {
  return firstOf(readSmallFile(certificateFile, SETTING), certificateFile, SETTING).fingerprint256;
}

/** The server's own certificate, without its chain. */
export function leafOf({ certificate }: TlsIdentity): X509Certificate {
  return new X509Certificate(certificate);
}

function firstOf(text: string, file: string, setting: string): X509Certificate {
  return attempt(
    () => new X509Certificate(text),
    () => unusable(file, setting, 'it has no certificate in PEM'),
  );
}

function attempt<T>(work: () => T, refusal: (error: unknown) => Error): T {
  try {
    return work();
  } catch (error) {
    throw refusal(error);
  }
}
