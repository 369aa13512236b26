import { ApiError, type IndexedRange } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { askDaemon, bodyOf, unserved } from './askDaemon.js';

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
  const body = answer && bodyOf(answer);
  // An answer that is not JSON is not from our daemon.
  if (answer !== undefined && body !== undefined) {
    if (answer.status === 200) return body as T;
    throw refusalOf(answer.status, body).error;
  }
  const store = await unserved(loaded, ({ openStoreReadOnly }) => openStoreReadOnly(loaded.config));
  try {
    const firstIndexed = store.meta()?.firstHeight ?? null;
    const latestIndexed = firstIndexed === null ? null : store.latestIndexedHeight();
    const range = { firstIndexed, latestIndexed, head: null, sealed: null, coverage: store.coverage() };
    return await read(store, range);
  } catch (error) {
    throw translated(error);
  } finally {
    await store.close();
  }
}

/** Why the daemon refuses, by the status and the JSON of its answer, and the exit code for it. */
export function refusalOf(status: number, body: unknown) {
  const { reason, message = `the daemon answered with status ${status}` } = Object(body) as {
    readonly reason?: string;
    readonly message?: string;
  };
  const byStatus = status === 404 ? 'not_found' : status === 400 ? 'usage' : 'no_daemon';
  const exit = reason === 'storage' ? reason : reason === 'unproven' ? 'not_found' : byStatus;
  return { reason, error: new OperatorError(exit, message) };
}

const translated = (error: unknown): unknown =>
  error instanceof ApiError ? refusalOf(error.code, error).error : error;

/** Refuses malformed arguments before any request. Expected errors: OperatorError `usage`. */
export function checked<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw translated(error);
  }
}
