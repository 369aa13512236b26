import { Worker } from 'node:worker_threads';
import { loadCertificates } from '../../src/proof/index.js';
import type { CertificatePort } from '../../src/proof/index.js';

const { serveCertificates } = await loadCertificates();

/** Verifies on the thread of the test, before `postMessage` returns: virtual time stands still meanwhile. */
export function certificatesHere(): CertificatePort {
  let ask: Parameters<Parameters<typeof serveCertificates>[0]['on']>[1] = () => undefined;
  let answer: Parameters<CertificatePort['on']>[1] = () => undefined;
  serveCertificates({
    on: (_event, listener) => (ask = listener),
    postMessage: (response) => (answer as (message: unknown) => void)(response),
  });
  return {
    postMessage: (request) => ask(request),
    on: (event: string, listener: never) => {
      if (event === 'message') answer = listener;
    },
    terminate: () => undefined,
  };
}

/** A thread of its own, which runs the sources. */
export function certificatesOfSources(): CertificatePort {
  const program = new URL('../../src/proof/certificates/certificateWorker.ts', import.meta.url);
  return new Worker(new URL('sourceWorker.mjs', import.meta.url), { argv: [program.href], execArgv: [] });
}
