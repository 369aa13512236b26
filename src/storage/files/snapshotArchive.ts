import { once } from 'node:events';
import { mkdir, readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Unpack } from 'tar';
import { childOf, maskedEndpoint, messageOf, OperatorError, type Clock } from '../../runtime/index.js';
import { causesOf, StorageError } from '../StorageError.js';
import { syncDirectory, syncFile } from './synced.js';

/** The files of a database. Everything else in an archive is ignored. */
const DATABASE_FILE = /^(?:CURRENT|MANIFEST-\d+|\d+\.(?:ldb|sst|log))$/;
const FILE_MODE = 0o600;
/** Temporary status codes of a server, or of a proxy before it. */
const PASSING_STATUS = /^(?:408|425|429|5\d\d)$/;
/** How long the server may be silent. */
const SILENCE_MS = 60_000;

export interface SnapshotProgress {
  readonly phase: 'download';
  readonly bytes: number;
  /** `undefined` when the server does not say. */
  readonly ofBytes: number | undefined;
}

/**
 * Fills a new directory with the files of a database from a tar archive, plain or gzipped, while it is downloaded. Only
 * plain files with names of LevelDB are written, all into that directory, whatever paths the archive names.
 *
 * Expected errors: `OperatorError` (`usage`, the URL does not return an archive); `StorageError` (`unavailable`, the
 * server cannot be reached now, or the download breaks off; `corrupt`, the archive is cut short, is not one, or names a
 * file twice); those of the file system; the signal's abort reason.
 */
export async function unpackSnapshot(
  url: string,
  directory: string,
  {
    clock,
    onProgress,
    signal,
  }: {
    readonly clock: Clock;
    readonly signal: AbortSignal;
    readonly onProgress?: ((progress: SnapshotProgress) => void) | undefined;
  },
): Promise<void> {
  await mkdir(directory, { mode: 0o700 });
  const given = childOf(signal);
  const silent = (): void => given.abort(interrupted(url, `it sent nothing for ${SILENCE_MS / 1_000} s`));
  let timer = clock.setTimer(SILENCE_MS, silent);
  const names = new Set<string>();
  const files = new Unpack({
    cwd: directory,
    strict: true,
    filter: (path, entry) => 'type' in entry && entry.type === 'File' && DATABASE_FILE.test(basename(path)),
    onReadEntry: (entry) => {
      const name = basename(entry.path);
      if (names.has(name)) files.abort(new Error(`it holds ${name} twice`));
      names.add(name);
      entry.path = name;
      entry.mode = FILE_MODE;
    },
  });
  // It may fail between two chunks, more than once, and then emits no other event.
  files.on('error', () => undefined);
  const closed = once(files, 'close');
  closed.catch(() => undefined);
  try {
    const response = await requested(url, given.signal);
    const length = Number(response.headers.get('content-length') ?? NaN);
    const ofBytes = Number.isSafeInteger(length) ? length : undefined;
    const body: AsyncIterable<Uint8Array> | Iterable<Uint8Array> = response.body ?? [];
    let bytes = 0;
    for await (const chunk of body) {
      timer.cancel();
      timer = clock.setTimer(SILENCE_MS, silent);
      bytes += chunk.length;
      onProgress?.({ phase: 'download', bytes, ofBytes });
      await Promise.race([closed, files.write(Buffer.from(chunk)) || once(files, 'drain')]);
    }
    files.end();
    await closed;
    if (!names.has('CURRENT')) throw new Error('it holds no store');
  } catch (error) {
    if (given.signal.aborted) throw given.signal.reason;
    // `fetch` throws this while the body arrives.
    if (error instanceof TypeError) throw interrupted(url, messageOf(causesOf(error).at(-1)), error);
    const isOfDisk = error instanceof Error && 'syscall' in error && 'path' in error;
    if (isOfDisk || error instanceof OperatorError) throw error;
    const what = `The snapshot ${maskedEndpoint(url)} cannot be unpacked, and nothing of it was taken: ${messageOf(error)}. Take another one.`;
    throw new StorageError('corrupt', what, { cause: error });
  } finally {
    timer.cancel();
    given.abort();
  }
  for (const name of await readdir(directory)) await syncFile(join(directory, name));
  await syncDirectory(directory);
}

async function requested(url: string, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    // `fetch` would undo a content encoding: ask for the archive as it is, compressed or not.
    response = await fetch(url, { signal, headers: { 'accept-encoding': 'identity' } });
  } catch (error) {
    // `fetch` says only that it failed; its cause says why. Network errors have a code; an unusable address has none, or this one.
    const cause = causesOf(error).at(-1);
    const hasCode = cause !== undefined && 'code' in cause && cause.code !== 'ERR_INVALID_URL';
    throw (hasCode ? interrupted : unusable)(url, messageOf(cause), error);
  }
  const { ok, status } = response;
  if (!ok)
    throw (PASSING_STATUS.test(String(status)) ? interrupted : unusable)(
      url,
      `it answers with status ${status}`,
    );
  return response;
}

function unusable(url: string, why: string, cause?: unknown): OperatorError {
  const what = `Cannot get a snapshot from ${maskedEndpoint(url)}: ${why}. Check the address.`;
  return new OperatorError('usage', what, { cause });
}

/** The fault may pass: this exit code makes a service manager start the daemon again. */
function interrupted(url: string, why: string, cause?: unknown): StorageError {
  const what = `Cannot get a snapshot from ${maskedEndpoint(url)} now: ${why}. Start again once its server can be reached.`;
  return new StorageError('unavailable', what, { cause });
}
