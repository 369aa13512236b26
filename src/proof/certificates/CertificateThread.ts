import type { Identifier } from '../../flow/index.js';
import { messageOf } from '../../runtime/index.js';
import type { Committee } from '../committee/committee.js';
import type { readProtocolState } from '../committee/protocolState.js';
import type { Certificate, CertificateVerdict } from './provenFinal.js';

/** Certificates that may wait for the thread. A caller at the tip has one at a time. */
export const MAX_WAITING_CERTIFICATES = 64;

type StateReading = ReturnType<typeof readProtocolState>;

export type Question =
  | { readonly certificate: Certificate; readonly committee: Committee }
  | { readonly snapshot: Uint8Array; readonly protocolStateId: Identifier };
export type Request = readonly [number: number, question: Question];
type Answer = CertificateVerdict | StateReading;
export type Response = readonly [number: number, answer: Answer];

/** The thread has not answered: it ended, was closed, or has too much to do. Ask again later. */
export class CertificateThreadError extends Error {
  override readonly name = 'CertificateThreadError';
}

/** A `Worker` that runs `certificateWorker.ts`, as far as this needs it. */
export interface CertificatePort {
  postMessage(request: Request): void;
  on(event: 'message', listener: (response: Response) => void): unknown;
  on(event: 'error', listener: (error: unknown) => void): unknown;
  on(event: 'exit', listener: () => void): unknown;
  terminate(): unknown;
}

/**
 * Verifies certificates in a thread of its own: each takes tens of milliseconds, the first of a committee hundreds. Reads
 * snapshots there too, which have megabytes. `start` starts the thread, when it is first needed and again after it ended.
 */
export class CertificateThread {
  readonly #start: () => CertificatePort;
  readonly #waiting = new Map<
    number,
    { readonly resolve: (answer: Answer) => void; readonly reject: (error: CertificateThreadError) => void }
  >();
  #port: CertificatePort | undefined;
  #lastNumber = 0;

  constructor(start: () => CertificatePort) {
    this.#start = start;
  }

  /** Like `verifyCertificate`. Expected errors: `CertificateThreadError`. */
  async verify(certificate: Certificate, committee: Committee): Promise<CertificateVerdict> {
    return (await this.#ask({ certificate, committee })) as CertificateVerdict;
  }

  /** Like `readProtocolState`, of the JSON that a node sent. Expected errors: `CertificateThreadError`. */
  async readState(snapshot: Uint8Array, protocolStateId: Identifier): Promise<StateReading> {
    return (await this.#ask({ snapshot, protocolStateId })) as StateReading;
  }

  /** Ends the thread. What waits is rejected. */
  close(): void {
    if (this.#port !== undefined) this.#end(this.#port, 'the verification of certificates was closed');
  }

  async #ask(question: Question): Promise<Answer> {
    if (this.#waiting.size >= MAX_WAITING_CERTIFICATES)
      throw new CertificateThreadError('too many certificates wait to be verified');
    const number = ++this.#lastNumber;
    const port = (this.#port ??= this.#started());
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      port.postMessage([number, question]);
    });
  }

  #started(): CertificatePort {
    const port = this.#start();
    port.on('message', ([number, answer]) => {
      this.#waiting.get(number)?.resolve(answer);
      this.#waiting.delete(number);
    });
    port.on('error', (error) =>
      this.#end(port, `the thread that verifies certificates failed: ${messageOf(error)}`),
    );
    port.on('exit', () => this.#end(port, 'the thread that verifies certificates ended'));
    return port;
  }

  #end(port: CertificatePort, reason: string): void {
    if (port !== this.#port) return;
    this.#port = undefined;
    for (const { reject } of this.#waiting.values()) reject(new CertificateThreadError(reason));
    this.#waiting.clear();
    port.terminate();
  }
}
