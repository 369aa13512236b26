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
import type { AccountRequest, IndexedRange, LookupKind } from '../../api/index.js';
import { loadStores } from '../../app/index.js';
import { systemClock } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { ACCOUNT, explainFlags, getFlags, getKinds, ownValuesOf } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { checked, documentFrom } from '../client/documentFrom.js';
import { wrongUse } from '../command.js';
import type { Invocation, Terminal } from '../command.js';
import { renderExplanation } from '../output/explainPage.js';

/** What to look up. */
type Question =
  | { readonly kind: LookupKind; readonly key: string }
  | { readonly kind: typeof ACCOUNT; readonly asked: AccountRequest };

/** `get`: prints one JSON document, from the running daemon or, if none runs, the store. */
export async function get(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const question = questionOf(invocation);
  checked(() =>
    question.kind === ACCOUNT
      ? parseAccountRequest(question.asked)
      : checkLookupKey(question.kind, question.key),
  );
  const loaded = await configOf(invocation, terminal);
  const document = await documentFrom<unknown>(loaded, pathOf(question), (store, range) =>
    documentOf(store, question, range),
  );
  terminal.out(JSON.stringify(document, undefined, 2) + '\n');
  return 'done';
}

function questionOf(invocation: Invocation): Question {
  const [kind, key] = invocation.positionals;
  const { role, limit, cursor } = ownValuesOf(getFlags, invocation);
  if (kind === ACCOUNT && key !== undefined) {
    const asked = { address: key, role: role ?? '', limit: limit ?? '', cursor: cursor ?? '' };
    return { kind, asked };
  }
  if (kind === undefined || !isLookupKind(kind) || key === undefined) {
    throw wrongUse(
      `Say what to get: flow-collection-indexer get ${getKinds.join('|')} <id, height or address>.`,
    );
  }
  const foreign = Object.entries({ role, limit, cursor }).find(([, value]) => value !== null);
  if (foreign !== undefined)
    throw wrongUse(`--${foreign[0]} is only for get account. See flow-collection-indexer get --help.`);
  return { kind, key };
}

function pathOf(question: Question): string {
  if (question.kind !== ACCOUNT) return `/lookup/${question.kind}/${encodeURIComponent(question.key)}`;
  const { address, ...asked } = question.asked;
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ''));
  return `/accounts/${encodeURIComponent(address)}/transactions?${query.toString()}`;
}

function documentOf(store: IndexStore, question: Question, range: IndexedRange): Promise<unknown> {
  return question.kind === ACCOUNT
    ? accountDocument(store, question.asked, range)
    : lookupDocument(store, question.kind, question.key, range);
}

/** `explain`: says why something is or is not in the index. */
export async function explain(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const [key] = invocation.positionals;
  if (key === undefined) throw wrongUse('Say what to explain: flow-collection-indexer explain <height|id>.');
  checked(() => parseExplainKey(key));
  const { json } = ownValuesOf(explainFlags, invocation);
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
}
