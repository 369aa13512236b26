import { isAbort } from '../cancellation/AbortError.js';
import { OperatorError } from '../errors/OperatorError.js';

/** Why output cannot be written, by the system's code, and what the operator can do. */
const faults: Readonly<Record<string, string>> = {
  EAGAIN: 'nobody reads it. Look at the terminal, the pipe or the log driver behind it',
  EPIPE: 'its reader has gone. Start that again',
  ECONNRESET: 'its reader has gone. Start that again',
  EIO: 'its terminal is gone, or its disk fails. Look at both',
  ENOSPC: 'the disk is full. Free some space',
  EDQUOT: 'the quota is used up. Free some space',
  EACCES: 'this user may not write there. Give it the right to, or choose another place',
  EPERM: 'this user may not write there. Give it the right to, or choose another place',
  EROFS: 'the file system is mounted read-only. Choose another place',
  ENOENT: 'its directory does not exist. Make it, or choose another place',
  ENOTDIR: 'part of its path is not a directory. Choose another place',
  EISDIR: 'it is a directory. Name a file in it; export takes one with --format csv or parquet',
  // As mounts of object stores.
  ENOSYS: 'its file system lacks what writing needs. Choose a local disk, and copy it from there',
  ENOTSUP: 'its file system lacks what writing needs. Choose a local disk, and copy it from there',
  EFBIG: 'the file would be larger than the file system or a limit allows. Choose another place',
};

/** The same as a clause: what is wrong, and what to do. */
export function outputFault(error: NodeJS.ErrnoException): string {
  return faults[error.code ?? ''] ?? `${error.message}. Look at the disk and the path`;
}

/** True for the error of a pipe whose reader has exited. */
export function isReaderGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EPIPE';
}

/**
 * Says what the operator can do about output that cannot be written. Errors that do not come from the system are
 * returned as they are.
 */
export function outputError(error: unknown, name: string): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  // Node.js gives codes of its own to wrong calls, and to its abort errors.
  if (typeof code !== 'string' || code.startsWith('ERR_') || isAbort(error)) return error;
  const message = `Cannot write ${name}: ${outputFault(error as NodeJS.ErrnoException)}.`;
  return new OperatorError('storage', message, { cause: error });
}
