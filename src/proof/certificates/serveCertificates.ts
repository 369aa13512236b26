import { readProtocolState } from '../committee/protocolState.js';
import type { Answer, Question } from './certificateThread.js';
import { digestOf, prepareCommittee, verifyCertificate } from './verifyCertificate.js';
import type { PreparedCommittee } from './verifyCertificate.js';

/** Around an epoch transition two committees sign; a third is for old certificates. */
const MAX_PREPARED_COMMITTEES = 3;

/** The thread's side. Keeps the decoded keys of the committees used last. */
export function serveCertificates(port: {
  on(event: 'message', listener: (question: Question) => void): unknown;
  postMessage(answer: Answer): void;
}): void {
  const recent = new Map<string, PreparedCommittee>();
  port.on('message', (question) => {
    if ('snapshot' in question) {
      const snapshot = Buffer.from(question.snapshot).toString();
      port.postMessage(readProtocolState(snapshot, question.protocolStateId));
      return;
    }
    const { certificate, committee } = question;
    const digest = digestOf(committee).toString('hex');
    const prepared = recent.get(digest) ?? prepareCommittee(committee);
    recent.delete(digest);
    recent.set(digest, prepared);
    for (const oldest of recent.keys()) if (recent.size > MAX_PREPARED_COMMITTEES) recent.delete(oldest);
    port.postMessage(verifyCertificate(certificate, prepared));
  });
}
