import { ApiError, isLookupKind, lookupDocument, lookupKinds } from '../api/index.js';
import { openStoreReadOnly } from '../app/index.js';
import { OperatorError } from '../runtime/index.js';
import { askDaemon, noDaemon, refusal } from './client.js';
import type { Command } from './command.js';
import { configOf, daemonAddressSettings, namesDaemonAddress } from './settings.js';

/** `get`: one JSON document, from the running daemon or, when none runs, from the store itself. */
export const getCommand: Command = {
  name: 'get',
  summary: 'Print one block, collection or transaction as JSON, with its height and place.',
  positionals: `${lookupKinds.join('|')} <id or height>`,
  maxPositionals: 2,
  settings: daemonAddressSettings,
  ownFlags: {},
  run: async (invocation, terminal) => {
    const [kind, key] = invocation.positionals;
    if (kind === undefined || !isLookupKind(kind) || key === undefined) {
      throw new OperatorError(
        'usage',
        `Say what to get: flow-collection-indexer get ${lookupKinds.join('|')} <id or height>.`,
      );
    }
    const loaded = configOf(invocation, terminal);
    const answer = await askDaemon(loaded, `/lookup/${kind}/${encodeURIComponent(key)}`);
    if (answer !== undefined) {
      if (answer.status === 200) {
        terminal.out(JSON.stringify(answer.body, undefined, 2) + '\n');
        return 'done';
      }
      const { message, reason } = answer.body as { message?: string; reason?: string };
      throw refusal(answer.status, message ?? `status ${answer.status}`, reason);
    }
    if (namesDaemonAddress(loaded)) throw noDaemon(loaded);
    const store = await openStoreReadOnly(loaded.config);
    try {
      const first = store.meta()?.firstHeight ?? null;
      const latest = first === null ? null : store.latestIndexedHeight();
      const range = { firstIndexed: first, latestIndexed: latest, head: null, sealed: null };
      const document = await lookupDocument(store, kind, key, range);
      terminal.out(JSON.stringify(document, undefined, 2) + '\n');
      return 'done';
    } catch (error) {
      if (error instanceof ApiError) throw refusal(error.code, error.message);
      throw error;
    } finally {
      await store.close();
    }
  },
};
