import { ApiError } from '../../api/index.js';
import type { IndexedRange } from '../../api/index.js';
import { openStoreReadOnly } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import type { IndexStore } from '../../storage/index.js';
import { namesDaemonAddress } from './daemonAddress.js';
import { askDaemon, noDaemon } from './findDaemon.js';
import { refusal } from './refusals.js';

/**
 * A document that the running daemon serves at this path or, if none runs, that `read` makes from the store. Expected errors:
 * OperatorError.
 */
export async function documentFrom<T>(
  loaded: LoadedConfig,
  path: string,
  read: (store: IndexStore, range: IndexedRange) => Promise<T>,
): Promise<T> {
  const answer = await askDaemon(loaded, path);
  if (answer !== undefined) {
    if (answer.status === 200) return answer.body as T;
    const { message, reason } = answer.body as { message?: string; reason?: string };
    throw refusal(answer.status, message ?? `the daemon answered with status ${answer.status}`, reason);
  }
  if (namesDaemonAddress(loaded)) throw noDaemon(loaded);
  const store = await openStoreReadOnly(loaded.config);
  try {
    const firstIndexed = store.meta()?.firstHeight ?? null;
    const latestIndexed = firstIndexed === null ? null : store.latestIndexedHeight();
    const range = { firstIndexed, latestIndexed, head: null, sealed: null, coverage: store.coverage() };
    return await read(store, range);
  } catch (error) {
    if (error instanceof ApiError) throw refusal(error.code, error.message, error.reason);
    throw error;
  } finally {
    await store.close();
  }
}
