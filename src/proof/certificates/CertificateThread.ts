import type { Committee } from '../committee/committee.js';
import { digestOf, prepareCommittee, verifyCertificate } from './verifyCertificate.js';
import type {
  Certificate,
  CertificateRules,
  CertificateVerdict,
  PreparedCommittee,
} from './verifyCertificate.js';

/** Certificates that may wait for the thread. A caller at the tip has one at a time. */
export const MAX_WAITING_CERTIFICATES = 64;
/** Around the border of an epoch two committees sign; a third is for a reader of old certificates. */
const MAX_PREPARED_COMMITTEES = 3;

type Request = readonly [
  number: number,
  certificate: Certificate,
  committee: Committee,
  rules: CertificateRules,
];
type Response = readonly [number: number, verdict: CertificateVerdict];

interface Waiting {
  readonly resolve: (verdict: CertificateVerdict) => void;
  readonly reject: (error: unknown) => void;
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
 * Verifies certificates in a thread of its own: each takes tens of milliseconds, the first of a committee hundreds. `start`
 * starts the thread, when it is first needed and again after it ended.
 */
export class CertificateThread {
  readonly #start: () => CertificatePort;
  readonly #waiting = new Map<number, Waiting>();
  #port: CertificatePort | undefined;
  #lastNumber = 0;

  constructor(start: () => CertificatePort) {
    this.#start = start;
  }

  /**
   * Like `verifyCertificate`. Rejects when the thread ends, when it is closed, and when too many certificates wait.
   */
  async verify(
    certificate: Certificate,
    committee: Committee,
    rules: CertificateRules,
  ): Promise<CertificateVerdict> {
    if (this.#waiting.size >= MAX_WAITING_CERTIFICATES)
      throw new Error('too many certificates wait to be verified');
    const number = ++this.#lastNumber;
    const port = (this.#port ??= this.#started());
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      port.postMessage([number, certificate, committee, rules]);
    });
  }

  /** Ends the thread. What waits is rejected. */
  close(): void {
    if (this.#port !== undefined)
      this.#end(this.#port, new Error('the verification of certificates was closed'));
  }

  #started(): CertificatePort {
    const port = this.#start();
    port.on('message', ([number, verdict]) => {
      this.#waiting.get(number)?.resolve(verdict);
      this.#waiting.delete(number);
    });
    port.on('error', (error) => this.#end(port, error));
    port.on('exit', () => this.#end(port, new Error('the thread that verifies certificates ended')));
    return port;
  }

  #end(port: CertificatePort, error: unknown): void {
    if (port !== this.#port) return;
    this.#port = undefined;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    port.terminate();
  }
}

/** The thread's side. Keeps the decoded keys of the committees used last. */
export function serveCertificates(port: {
  on(event: 'message', listener: (request: Request) => void): unknown;
  postMessage(response: Response): void;
}): void {
  const recent = new Map<string, PreparedCommittee>();
  port.on('message', ([number, certificate, committee, rules]) => {
    const digest = digestOf(committee).toString('hex');
    const prepared = recent.get(digest) ?? prepareCommittee(committee);
    recent.delete(digest);
    recent.set(digest, prepared);
    for (const oldest of recent.keys()) if (recent.size > MAX_PREPARED_COMMITTEES) recent.delete(oldest);
    port.postMessage([number, verifyCertificate(certificate, prepared, rules)]);
  });
}
