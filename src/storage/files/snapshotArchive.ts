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
  try {
    const response = await requested(url, given.signal);
    const length = Number(response.headers.get('content-length') ?? NaN);
    const ofBytes = Number.isSafeInteger(length) ? length : undefined;
    let bytes = 0;
    await unpack(url, directory, response.body ?? [], (chunk) => {
      timer.cancel();
      timer = clock.setTimer(SILENCE_MS, silent);
      bytes += chunk.length;
      onProgress?.({ phase: 'download', bytes, ofBytes });
    });
    for (const name of await readdir(directory)) await syncFile(join(directory, name));
    await syncDirectory(directory);
  } catch (error) {
    if (given.signal.aborted) throw given.signal.reason;
    throw error;
  } finally {
    timer.cancel();
    given.abort();
  }
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

async function unpack(
  url: string,
  directory: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onChunk: (chunk: Uint8Array) => void,
): Promise<void> {
  const names = new Set<string>();
  let failure: Error | undefined;
  const files = new Unpack({
    cwd: directory,
    strict: true,
    filter: (path, entry) => 'type' in entry && entry.type === 'File' && DATABASE_FILE.test(basename(path)),
    onReadEntry: (entry) => {
      const name = basename(entry.path);
      if (names.has(name)) failure ??= broken(url, `it holds ${name} twice`);
      names.add(name);
      entry.path = name;
      entry.mode = FILE_MODE;
    },
  });
  files.on('error', (error: unknown) => (failure ??= failureOf(url, error)));
  // After a failure `drain` and `close` may never be emitted.
  const hasFailed = (): boolean => failure !== undefined;
  try {
    for await (const chunk of body) {
      onChunk(chunk);
      const isTaken = files.write(Buffer.from(chunk));
      if (hasFailed()) break;
      if (!isTaken) await once(files, 'drain');
    }
    if (!hasFailed()) files.end();
    if (!hasFailed()) await once(files, 'close');
  } catch (error) {
    // `fetch` throws this while the body arrives; everything else comes from the archive or the disk.
    failure ??=
      error instanceof TypeError
        ? interrupted(url, messageOf(causesOf(error).at(-1)), error)
        : failureOf(url, error);
  }
  if (failure === undefined && !names.has('CURRENT')) failure = broken(url, 'it holds no store');
  if (failure !== undefined) throw failure;
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

/** Errors of the disk are passed on unchanged. */
function failureOf(url: string, error: unknown): Error {
  const isOfDisk = error instanceof Error && 'syscall' in error && 'path' in error;
  return isOfDisk ? error : broken(url, messageOf(error), error);
}

function broken(url: string, why: string, cause?: unknown): StorageError {
  const what = `The snapshot ${maskedEndpoint(url)} cannot be unpacked, and nothing of it was taken: ${why}. Take another one.`;
  return new StorageError('corrupt', what, { cause });
}
