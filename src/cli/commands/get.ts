import {
  accountDocument,
  checkLookupKey,
  isLookupKind,
  lookupDocument,
  parseAccountRequest,
} from '../../api/index.js';
import type { AccountRequest, IndexedRange, LookupKind } from '../../api/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { documentFrom } from '../client/documentFrom.js';
import { checkKey } from '../client/refusals.js';
import type { Invocation, Terminal } from '../command.js';
import { ACCOUNT, getFlags, getKinds, ownValuesOf } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';

const kinds = getKinds.join('|');

/** What to look up. */
type Question =
  | { readonly kind: LookupKind; readonly key: string }
  | { readonly kind: typeof ACCOUNT; readonly asked: AccountRequest };

/** `get`: prints one JSON document, from the running daemon or, if none runs, the store. */
export async function get(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const question = questionOf(invocation);
  checkKey(() =>
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
    throw new OperatorError(
      'usage',
      `Say what to get: flow-collection-indexer get ${kinds} <id, height or address>.`,
    );
  }
  const foreign = Object.entries({ role, limit, cursor }).find(([, value]) => value !== null);
  if (foreign !== undefined) {
    throw new OperatorError(
      'usage',
      `--${foreign[0]} is only for get account. See flow-collection-indexer get --help.`,
    );
  }
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
