import { checkLookupKey, proofDocument } from '../../api/index.js';
import type { LookupKind, ProofDocument } from '../../api/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { ownValuesOf, proveFlags, proveKinds } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { documentFrom } from '../client/documentFrom.js';
import { checkKey } from '../client/refusals.js';
import type { Invocation, Terminal } from '../command.js';

const inPaths: Readonly<Record<LookupKind, 'blocks' | 'collections' | 'transactions'>> = {
  block: 'blocks',
  collection: 'collections',
  transaction: 'transactions',
};

/** `prove`: prints a proof document, from the running daemon or, if none runs, the store. */
export async function prove(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const [word, key] = invocation.positionals;
  const kind = proveKinds.find((each) => each === word);
  if (kind === undefined || key === undefined) {
    const kinds = proveKinds.join('|');
    throw new OperatorError(
      'usage',
      `Say what to prove: flow-collection-indexer prove ${kinds} <id or height>.`,
    );
  }
  checkKey(() => checkLookupKey(kind, key));
  const to = String(ownValuesOf(proveFlags, invocation).to ?? '');
  const asked = { kind: inPaths[kind], key, to };
  const path = `/proof/${asked.kind}/${encodeURIComponent(key)}?${new URLSearchParams({ to }).toString()}`;
  const loaded = await configOf(invocation, terminal);
  const document = await documentFrom<ProofDocument>(loaded, path, (store, range) =>
    proofDocument(store, asked, range),
  );
  terminal.out(JSON.stringify(document) + '\n');
  return 'done';
}
