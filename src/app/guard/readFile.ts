import { messageOf, named, OperatorError, readNamedFile } from '../../runtime/index.js';

/** Certificate chains and token files are far smaller. */
const MAX_BYTES = 1024 * 1024;

/** The text of a small file. Expected errors: OperatorError `configuration`. */
export function readSmallFile(path: string, setting: string): string {
  try {
    // Some editors begin a file with a byte order mark.
    return readNamedFile(path, { maxBytes: MAX_BYTES })
      .toString()
      .replace(/^\uFEFF/, '');
  } catch (error) {
    throw unusable(path, setting, `${messageOf(error)}${adviceOn(error)}`, error);
  }
}

function adviceOn(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT') return '; check the path';
  if (code === 'EACCES') return '; let the user that runs the daemon read it';
  return code === 'EISDIR' ? '; name the file in it' : '';
}

/** The error for a configured file that cannot be used. `why` also says what to do. */
export function unusable(path: string, setting: string, why: string, cause?: unknown): OperatorError {
  return new OperatorError('configuration', `Cannot use ${named(path)} (${setting}): ${why}.`, { cause });
}
