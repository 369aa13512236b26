import { hash } from 'node:crypto';
import { loadCertificates, type CertificatePort } from '../../src/proof/index.js';
import type { Answer, Question } from '../../src/proof/certificates/certificateThread.js';

const { serveCertificates } = await loadCertificates();

/** Answers that were given before, by what was asked. */
export type Verdicts = Map<string, Answer>;

/** Verifies before `postMessage` returns: virtual time stands still meanwhile. What `verdicts` knows is not verified again. */
export function certificatesHere(verdicts: Verdicts = new Map()): CertificatePort {
  let ask: Parameters<Parameters<typeof serveCertificates>[0]['on']>[1] = () => undefined;
  let answer: (verdict: Answer) => void = () => undefined;
  let asked = '';
  serveCertificates({
    on: (_event, listener) => (ask = listener),
    postMessage: (verdict) => {
      verdicts.set(asked, verdict);
      answer(verdict);
    },
  });
  return {
    postMessage: (question) => {
      asked = keyOf(question);
      const known = verdicts.get(asked);
      if (known === undefined) ask(question);
      else answer(known);
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
