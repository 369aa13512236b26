import { hash } from 'node:crypto';
import { loadCertificates, type CertificatePort } from '../../src/proof/index.js';
import type { Question, Response } from '../../src/proof/certificates/CertificateThread.js';

const { serveCertificates } = await loadCertificates();

/** Answers that were given before, by what was asked. */
export type Verdicts = Map<string, Response[1]>;

/** Verifies before `postMessage` returns: virtual time stands still meanwhile. What `verdicts` knows is not verified again. */
export function certificatesHere(verdicts: Verdicts = new Map()): CertificatePort {
  let ask: Parameters<Parameters<typeof serveCertificates>[0]['on']>[1] = () => undefined;
  let answer: (response: Response) => void = () => undefined;
  let asked = '';
  serveCertificates({
    on: (_event, listener) => (ask = listener),
    postMessage: (response) => {
      verdicts.set(asked, response[1]);
      answer(response);
    },
  });
  return {
    postMessage: (request) => {
      const [number, question] = request;
      asked = keyOf(question);
      const known = verdicts.get(asked);
      if (known === undefined) ask(request);
      else answer([number, known]);
    },
    on: (event: string, listener: never) => {
      if (event === 'message') answer = listener;
    },
    terminate: () => undefined,
  };
}

function keyOf(question: Question): string {
  // Of megabytes, whose JSON would take longer than to read them.
  if ('snapshot' in question) return hash('sha256', question.snapshot) + question.protocolStateId;
  const text = JSON.stringify(question, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  return hash('sha256', text);
}
