import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TestSecrets } from '../../support/secretFiles.js';
import type { Scenes } from '../Stage.js';

/** With the key of the one for `localhost`. */
const EXPIRED = join(import.meta.dirname, '../../data/tls/expired-cert.pem');

export const secretScenes: Scenes = {
  certificate: async (stage) => {
    const secrets = new TestSecrets('');
    await stage.startUsual({}, secrets.tlsFlags());
    await stage.provoke({
      alerts: ['FlowIndexerCertificateExpires'],
      fault: 'a certificate that has expired stands in the file of `--api-tls-certificate-file`',
      strike: () => copyFileSync(EXPIRED, secrets.certificateFile),
      repaired: 'one that has not stands there',
      fix: () => secrets.use('localhost'),
    });
    await stage.provoke({
      alerts: ['FlowIndexerSecretRefused'],
      fault: 'the file of the certificate holds something else',
      strike: () => writeFileSync(secrets.certificateFile, 'no certificate\n'),
      repaired: 'it holds one again',
      fix: () => secrets.use('localhost'),
    });
  },
};
