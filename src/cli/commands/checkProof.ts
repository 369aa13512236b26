// Loads no more than it needs: a store, servers and clients take longer to load than a proof to check.
import { checkDocument, loadCertificates, type VerifyCertificate } from '../../proof/index.js';
import type { checkProofFlags } from '../arguments/flags.js';
import { readArgument, wrongUse, type Run } from '../command.js';

export const checkProof: Run<typeof checkProofFlags> = async (invocation, terminal) => {
  const [file] = invocation.positionals;
  if (file === undefined) throw wrongUse('Say what to check: flow-collection-indexer check-proof FILE.');
  const { checkpoint } = invocation.flags;
  const json = readArgument(file);
  const verdict = checkDocument(json, checkpoint ?? undefined, await verifierFor(json));
  if (!verdict.ok) {
    terminal.err(`Not proven: ${verdict.reason}.\n`);
    return 'damage';
  }
  terminal.out(`From block ${verdict.from} follow:\n${verdict.proven.join('\n')}\n`);
  if (checkpoint === null)
    terminal.err('Compare the ID of that block, 32 bytes, with a source that you trust.\n');
  return 'done';
};

/** The package of the curve takes longer to load than most documents to check, so only those with a certificate wait for it. */
export async function verifierFor(json: string): Promise<VerifyCertificate> {
  if (!json.includes('"way"')) return () => ({ valid: false, reason: 'the document hides its way' });
  const { prepareCommittee, verifyCertificate } = await loadCertificates();
  return (certificate, committee) => verifyCertificate(certificate, prepareCommittee(committee));
}
