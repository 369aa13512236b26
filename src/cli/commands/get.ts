import {
  accountDocument,
  ApiError,
  checkLookupKey,
  isLookupKind,
  lookupDocument,
  parseAccountRequest,
} from '../../api/index.js';
import type { AccountRequest, IndexedRange, LookupKind } from '../../api/index.js';
import { openStoreReadOnly } from '../../app/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { namesDaemonAddress } from '../client/daemonAddress.js';
import { askDaemon, noDaemon } from '../client/findDaemon.js';
import { checkKey, refusal } from '../client/refusals.js';
import type { Invocation, Terminal } from '../command.js';
import { ACCOUNT, getFlags, getKinds } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { ownValuesOf } from '../arguments/ownValues.js';

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
  const loaded = configOf(invocation, terminal);
  const print = (document: unknown): ExitReason => {
    terminal.out(JSON.stringify(document, undefined, 2) + '\n');
    return 'done';
  };
  const answer = await askDaemon(loaded, pathOf(question));
  if (answer !== undefined) {
    if (answer.status === 200) return print(answer.body);
    const { message, reason } = answer.body as { message?: string; reason?: string };
    throw refusal(answer.status, message ?? `status ${answer.status}`, reason);
  }
  if (namesDaemonAddress(loaded)) throw noDaemon(loaded);
  const store = await openStoreReadOnly(loaded.config);
  try {
    const first = store.meta()?.firstHeight ?? null;
    const latest = first === null ? null : store.latestIndexedHeight();
    const range = {
      firstIndexed: first,
      latestIndexed: latest,
      head: null,
      sealed: null,
      coverage: store.coverage(),
    };
    return print(await documentOf(store, question, range));
  } catch (error) {
    if (error instanceof ApiError) throw refusal(error.code, error.message);
    throw error;
  } finally {
    await store.close();
  }
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
      `--${foreign[0]} goes with get account alone. See flow-collection-indexer get --help.`,
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
