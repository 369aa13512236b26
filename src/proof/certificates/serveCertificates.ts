import type { Identifier } from '../../flow/index.js';
import { readProtocolState } from '../committee/protocolState.js';
import type { Request, Response, StateReading } from './CertificateThread.js';
import { digestOf, prepareCommittee, verifyCertificate } from './verifyCertificate.js';
import type { PreparedCommittee } from './verifyCertificate.js';

/** Around the border of an epoch two committees sign; a third is for a reader of old certificates. */
const MAX_PREPARED_COMMITTEES = 3;

/** The thread's side. Keeps the decoded keys of the committees used last. */
export function serveCertificates(port: {
  on(event: 'message', listener: (request: Request) => void): unknown;
  postMessage(response: Response): void;
}): void {
  const recent = new Map<string, PreparedCommittee>();
  port.on('message', ([number, question]) => {
    if ('snapshot' in question) {
      port.postMessage([number, readSnapshot(question.snapshot, question.protocolStateId)]);
      return;
    }
    const { certificate, committee, rules } = question;
    const digest = digestOf(committee).toString('hex');
    const prepared = recent.get(digest) ?? prepareCommittee(committee);
    recent.delete(digest);
    recent.set(digest, prepared);
    for (const oldest of recent.keys()) if (recent.size > MAX_PREPARED_COMMITTEES) recent.delete(oldest);
    port.postMessage([number, verifyCertificate(certificate, prepared, rules)]);
  });
}

/** Expected bad input is a reason, not an error. */
function readSnapshot(snapshot: Uint8Array, protocolStateId: Identifier): StateReading {
  try {
    return readProtocolState(JSON.parse(Buffer.from(snapshot).toString()), protocolStateId);
  } catch (error) {
    if (error instanceof SyntaxError) return { ok: false, reason: 'the snapshot is not JSON' };
    throw error;
  }
}
