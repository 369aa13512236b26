import { writeFileSync } from 'node:fs';
import { checkLookupKey, proofDocument } from '../../api/index.js';
import type { LookupKind, ProofDocument } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { checkDocument, CURRENT_RULES, loadCertificates } from '../../proof/index.js';
import type { VerifyCertificate } from '../../proof/index.js';
import { messageOf, OperatorError, readNamedFile } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { checkProofFlags, ownValuesOf, proveFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { checked, documentFrom } from '../client/documentFrom.js';
import { wrongUse } from '../command.js';
import type { Invocation, Terminal } from '../command.js';

/** What an id may name, the most likely first. */
const KINDS_OF_IDS: readonly LookupKind[] = ['transaction', 'collection', 'block'];

/** `prove`: a proof document, from the running daemon or, if none runs, the store. */
export async function prove(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const [key] = invocation.positionals;
  if (key === undefined) throw wrongUse('Say what to prove: flow-collection-indexer prove <height|id>.');
  checked(() => checkLookupKey('block', key));
  const { output, to } = ownValuesOf(proveFlags, invocation);
  const loaded = await configOf(invocation, terminal);
  const document = `${JSON.stringify(await documentOf(loaded, key, String(to ?? '')))}\n`;
  const verdict = checkDocument(document, undefined, await verifierFor(document));
  // A store knows no proven height: the newest certificates in it may not be those of the consensus nodes.
  if (!verdict.ok)
    throw new OperatorError(
      'not_found',
      `What is stored proves nothing: ${verdict.reason}. Try again when there are more blocks, or name --to; "verify" checks the store.`,
    );
  if (output === null) {
    terminal.out(document);
    return 'done';
  }
  try {
    writeFileSync(output, document);
  } catch (error) {
    throw new OperatorError('storage', `Cannot write ${output}: ${messageOf(error)}`);
  }
  return 'done';
}

async function documentOf(loaded: LoadedConfig, key: string, to: string): Promise<ProofDocument> {
  const isId = /^(?:0x)?[0-9a-f]{64}$/i.test(key);
  let unknown: unknown;
  for (const kind of isId ? KINDS_OF_IDS : (['block'] as const)) {
    const path = `/proof/${kind}/${encodeURIComponent(key)}?${new URLSearchParams({ to }).toString()}`;
    try {
      return await documentFrom<ProofDocument>(loaded, path, (store, range) =>
        proofDocument(store, { kind, key, to }, range),
      );
    } catch (error) {
      if (!(error instanceof OperatorError) || error.exit !== 'not_found') throw error;
      // The first of them says most: a transaction may be known, and its block not be proven.
      unknown ??= error;
    }
  }
  throw unknown;
}

/** `check-proof`: checks a proof document, without a store, a daemon or a network. */
export async function checkProof(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const [file] = invocation.positionals;
  if (file === undefined) throw wrongUse('Say what to check: flow-collection-indexer check-proof FILE.');
  const { checkpoint } = ownValuesOf(checkProofFlags, invocation);
  const json = textOf(file);
  const verdict = checkDocument(json, checkpoint ?? undefined, await verifierFor(json));
  if (!verdict.ok) {
    terminal.err(`Not proven: ${verdict.reason}.\n`);
    return 'damage';
  }
  terminal.out(`From block ${verdict.from} follow:\n${verdict.proven.join('\n')}\n`);
  if (checkpoint === null)
    terminal.err('Compare the ID of that block, 32 bytes, with a source that you trust.\n');
  return 'done';
}

function textOf(file: string): string {
  try {
    return readNamedFile(file, { mayBePipe: true }).toString();
  } catch (error) {
    throw wrongUse(`Cannot read ${file}: ${messageOf(error)}`);
  }
}

/** The package of the curve takes longer to load than most documents to check, so only those with a certificate wait for it. */
async function verifierFor(json: string): Promise<VerifyCertificate> {
  if (!json.includes('"way"')) return () => ({ valid: false, reason: 'the document hides its way' });
  const { prepareCommittee, verifyCertificate } = await loadCertificates();
  return (certificate, committee) =>
    verifyCertificate(certificate, prepareCommittee(committee), CURRENT_RULES);
}
