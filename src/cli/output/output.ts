import { write } from 'node:fs';
import { OperatorError, sleep, systemClock } from '../../runtime/index.js';

/** Before retrying a write to a full non-blocking descriptor. */
const BLOCKED_RETRY_MS = 10;

const advice: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full. Free some space',
  EDQUOT: 'the quota is used up. Free some space',
  EACCES: 'this user may not write there. Give it the right to, or choose another place',
  EPERM: 'this user may not write there. Give it the right to, or choose another place',
  EROFS: 'the file system is mounted read-only. Choose another place',
  ENOENT: 'its directory does not exist. Make it, or choose another place',
  ENOTDIR: 'part of its path is not a directory. Choose another place',
  EISDIR: 'it is a directory. Choose another place',
  EFBIG: 'the file would be larger than the file system or a limit allows. Choose another place',
};

/**
 * Says what the operator can do about output that cannot be written. Errors that do not come from the system are
 * returned as they are.
 */
export function outputError(error: unknown, name: string): unknown {
  if (!(error instanceof Error && 'code' in error && typeof error.code === 'string')) return error;
  const what = advice[error.code] ?? `${error.message}. Look at the disk and the path`;
  return new OperatorError('storage', `Cannot write ${name}: ${what}.`, { cause: error });
}

/**
 * Writes everything, off the event loop, and waits for a slow reader. Resolves with false when the reader has
 * gone. Expected errors: OperatorError (`storage`).
 */
export async function writeAll(descriptor: number, bytes: Uint8Array, name: string): Promise<boolean> {
  let written = 0;
  while (written < bytes.length) {
    const outcome = await writeSome(descriptor, bytes.subarray(written));
    if (typeof outcome === 'number') {
      written += outcome;
    } else if (outcome.code === 'EPIPE') {
      return false;
    } else if (outcome.code === 'EAGAIN') {
      await sleep(systemClock, BLOCKED_RETRY_MS);
    } else {
      throw outputError(outcome, name);
    }
  }
  return true;
}

function writeSome(descriptor: number, bytes: Uint8Array): Promise<number | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    write(descriptor, bytes, (error, written) => resolve(error ?? written));
  });
}
