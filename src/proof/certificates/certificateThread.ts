import type { Identifier } from '../../flow/index.js';
import { messageOf } from '../../runtime/index.js';
import type { Committee } from '../committee/committee.js';
import type { readProtocolState } from '../committee/protocolState.js';
import { CertificateThreadError } from './CertificateThreadError.js';
import type { Certificate, CertificateVerdict } from './provenFinal.js';

type StateReading = ReturnType<typeof readProtocolState>;

export type Question =
  | { readonly certificate: Certificate; readonly committee: Committee }
  | { readonly snapshot: Uint8Array; readonly protocolStateId: Identifier };
export type Answer = CertificateVerdict | StateReading;

/** A `Worker` that runs `certificateWorker.ts`, as far as this needs it. */
export interface CertificatePort {
  postMessage(question: Question): void;
  on(event: 'message', listener: (answer: Answer) => void): unknown;
  on(event: 'error', listener: (error: unknown) => void): unknown;
  on(event: 'exit', listener: () => void): unknown;
  terminate(): unknown;
}

export type CertificateThread = ReturnType<typeof certificateThread>;

/**
 * Verifies certificates in a separate thread: each takes tens of milliseconds, the first of a committee hundreds. Reads
 * snapshots there too, which have megabytes. `start` starts the thread, when it is first needed and again after it ended.
 * Callers await each answer before the next question. Expected errors of both questions: `CertificateThreadError`.
 */
export function certificateThread(start: () => CertificatePort) {
  let running: CertificatePort | undefined;
  /** Settles the question under way. */
  let asked: { resolve(answer: Answer): void; reject(error: CertificateThreadError): void } | undefined;

  const end = (reason: string): void => {
    running?.terminate();
    running = undefined;
    asked?.reject(new CertificateThreadError(reason));
  };
  const started = (): CertificatePort => {
    const port = start();
    const what = 'the thread that verifies certificates';
    // A thread that was ended may still send something.
    const unlessEnded = (act: () => void): void => (port === running ? act() : undefined);
    port.on('message', (answer) => unlessEnded(() => asked?.resolve(answer)));
    port.on('error', (error) => unlessEnded(() => end(`${what} failed: ${messageOf(error)}`)));
    port.on('exit', () => unlessEnded(() => end(`${what} ended`)));
    return port;
  };
  const ask = async <Its extends Answer>(question: Question): Promise<Its> => {
    if (asked !== undefined) throw new Error('a certificate is verified while another one is');
    const answer = new Promise<Answer>((resolve, reject) => (asked = { resolve, reject }));
    (running ??= started()).postMessage(question);
    return (await answer.finally(() => (asked = undefined))) as Its;
  };
  return {
    /** Like `verifyCertificate`. */
    verify: (certificate: Certificate, committee: Committee) =>
      ask<CertificateVerdict>({ certificate, committee }),
    /** Like `readProtocolState`, of the JSON that a node sent. */
    readState: (snapshot: Uint8Array, protocolStateId: Identifier) =>
      ask<StateReading>({ snapshot, protocolStateId }),
    /** Ends the thread, and rejects the question under way. */
    close: (): void => end('the verification of certificates was closed'),
  };
}
