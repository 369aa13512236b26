import {
  accountDocument,
  checkLookupKey,
  explainDocument,
  isLookupKind,
  lookupDocument,
  parseAccountRequest,
  parseExplainKey,
  workOfStore,
} from '../../api/index.js';
import type { IndexedRange } from '../../api/index.js';
import { loadStores } from '../../app/index.js';
import { systemClock } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { ACCOUNT, getKinds } from '../arguments/flags.js';
import type { explainFlags, getFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { checked, documentFrom } from '../client/documentFrom.js';
import { wrongUse } from '../command.js';
import type { Run, Invocation } from '../command.js';
import { renderExplanation } from '../output/explainPage.js';

/** `get`: prints one JSON document, from the running daemon or, if none runs, the store. */
export const get: Run<typeof getFlags> = async (invocation, terminal) => {
  const { path, read } = questionOf(invocation);
  const loaded = await configOf(invocation, terminal);
  const document = await documentFrom<unknown>(loaded, path, read);
  terminal.out(JSON.stringify(document, undefined, 2) + '\n');
  return 'done';
};

/** Where a daemon answers what was asked, and how a store does. Expected errors: OperatorError `usage`. */
function questionOf({ flags, positionals }: Invocation<typeof getFlags>): {
  readonly path: string;
  readonly read: (store: IndexStore, range: IndexedRange) => Promise<unknown>;
} {
  const [kind, key] = positionals;
  const given = Object.entries(flags).filter((flag): flag is [string, string] => flag[1] !== null);
  if (kind === ACCOUNT && key !== undefined) {
    const asked = { address: key, role: '', limit: '', cursor: '', ...Object.fromEntries(given) };
    checked(() => parseAccountRequest(asked));
    const query = new URLSearchParams(given.filter(([, value]) => value !== '')).toString();
    return {
      path: `/accounts/${encodeURIComponent(key)}/transactions?${query}`,
      read: (store, range) => accountDocument(store, asked, range),
    };
  }
  if (kind === undefined || !isLookupKind(kind) || key === undefined)
    throw wrongUse(
      `Say what to get: flow-collection-indexer get ${getKinds.join('|')} <id, height or address>.`,
    );
  const [foreign] = given;
  if (foreign !== undefined)
    throw wrongUse(`--${foreign[0]} is only for get account. See flow-collection-indexer get --help.`);
  checked(() => checkLookupKey(kind, key));
  return {
    path: `/lookup/${kind}/${encodeURIComponent(key)}`,
    read: (store, range) => lookupDocument(store, kind, key, range),
  };
}

/** `explain`: says why something is or is not in the index. */
export const explain: Run<typeof explainFlags> = async (invocation, terminal) => {
  const [key] = invocation.positionals;
  if (key === undefined) throw wrongUse('Say what to explain: flow-collection-indexer explain <height|id>.');
  checked(() => parseExplainKey(key));
  const { json } = invocation.flags;
  const loaded = await configOf(invocation, terminal);
  const document = await documentFrom(loaded, `/explain/${encodeURIComponent(key)}`, async (store, range) => {
    const { plannedHeightOf } = await loadStores();
    const planned = (height: number) => plannedHeightOf(store, height);
    return explainDocument(
      store,
      key,
      workOfStore(store, () => range, planned),
    );
  });
  terminal.out(
    json ? JSON.stringify(document, undefined, 2) + '\n' : renderExplanation(document, systemClock.now()),
  );
  return document.stage === 'unknown_id' ? 'not_found' : 'done';
};
