import { open } from 'node:fs/promises';
import { messageOf, named, OperatorError } from '../../runtime/index.js';

/** Certificate chains and token files are far smaller. */
const MAX_BYTES = 1024 * 1024;

/** The text of a small file. Expected errors: OperatorError `configuration`. */
export async function readSmallFile(path: string, setting: string): Promise<string> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      if (size > MAX_BYTES) throw new Error(`it has ${size} bytes; at most ${MAX_BYTES} are allowed`);
      // Some editors begin a file with a byte order mark.
      return (await file.readFile('utf8')).replace(/^\uFEFF/, '');
    } finally {
      await file.close();
    }
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
