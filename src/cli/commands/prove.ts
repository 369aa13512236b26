import { stat } from 'node:fs/promises';
import { checkLookupKey, proofDocument, type LookupKind, type ProofDocument } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { checkDocument } from '../../proof/index.js';
import { named, OperatorError } from '../../runtime/index.js';
import type { proveFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { checked, documentFrom } from '../client/documentFrom.js';
import { wrongUse, type Run } from '../command.js';
import { explained } from '../export/partFiles.js';
import { writeWhole } from '../output/wholeFile.js';
import { verifierFor } from './checkProof.js';

/** What an id may name, the most likely first. */
const KINDS_OF_IDS: readonly LookupKind[] = ['transaction', 'collection', 'block'];

export const prove: Run<typeof proveFlags> = async (invocation, terminal) => {
  const [key] = invocation.positionals;
  if (key === undefined) throw wrongUse('Say what to prove: flow-collection-indexer prove <height|id>.');
  checked(() => checkLookupKey('block', key));
  const { output, to } = invocation.flags;
  // Any other fault of the path is reported when it is written.
  const about = output === null ? undefined : await stat(output).catch(() => undefined);
  if (output !== null && about?.isFile() === true && about.size > 0)
    throw wrongUse(`The file ${named(output)} is not empty. Choose another one, or remove it first.`);
  const loaded = await configOf(invocation, terminal);
  const document = `${JSON.stringify(await documentOf(loaded, key, String(to ?? '')))}\n`;
  const verdict = checkDocument(document, undefined, await verifierFor(document));
  // A store knows no proven height: the newest certificates in it may not be those of the consensus nodes.
  if (!verdict.ok) {
    const next =
      loaded.config.network === 'devnet'
        ? 'a devnet signs few blocks of its history (devnet --certificates-every)'
        : '"verify" checks the store';
    const message = `No certificate that is stored proves it: ${verdict.reason}. Name in --to a block whose ID the reader trusts, or try again when there are more blocks; ${next}.`;
    throw new OperatorError('not_found', message);
  }
  if (output === null) terminal.out(document);
  else await explained(output, () => writeWhole(output, document));
  return 'done';
};

async function documentOf(loaded: LoadedConfig, key: string, to: string): Promise<ProofDocument> {
  const isId = /^(?:0x)?[0-9a-f]{64}$/i.test(key);
  let unknown: unknown;
  for (const kind of isId ? KINDS_OF_IDS : (['block'] as const)) {
    const path = `/proof/${kind}/${encodeURIComponent(key)}?${new URLSearchParams({ to }).toString()}`;
    try {
      return await documentFrom<ProofDocument>(loaded, path, (store, range) =>
        proofDocument(store, { kind, key, to }, () => range),
      );
    } catch (error) {
      if (!(error instanceof OperatorError) || error.exit !== 'not_found') throw error;
      // The first refusal is the most specific: a transaction may be known but its block not proven.
      unknown ??= error;
    }
  }
  throw unknown;
}
