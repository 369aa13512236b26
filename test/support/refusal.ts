import { expect } from 'vitest';
import type { ExitReason } from '../../src/runtime/index.js';
import type { StorageErrorKind } from '../../src/storage/index.js';
import type { Ran } from './terminal.js';

export const matching = (words: RegExp | string): string =>
  (typeof words === 'string' ? expect.stringContaining(words) : expect.stringMatching(words)) as string;

/** What a command or an error that refuses something is to match, with `toMatchObject`. */
export function refusal(exit: ExitReason, words: RegExp | string): Pick<Ran, 'exit' | 'message'> {
  return { exit, message: matching(words) };
}

/** The same of one that a process, or `runCommand`, ran: its exit code, and what it says on standard error. */
export const refused = (code: number, words: RegExp | string) => ({ code, stderr: matching(words) });

/** And what one says that does what it is asked. */
export const answered = (words: RegExp | string, code = 0) => ({ code, stdout: matching(words) });

export function fault(kind: StorageErrorKind, words: RegExp | string) {
  return { ...refusal('storage', words), kind };
}
