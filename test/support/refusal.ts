import { expect } from 'vitest';
import type { ExitReason } from '../../src/runtime/index.js';
import type { Ran } from './terminal.js';

/** What a command that is refused is to match, with `toMatchObject`. */
export function refusal(exit: ExitReason, words: RegExp): Pick<Ran, 'exit' | 'message'> {
  return { exit, message: expect.stringMatching(words) as string };
}
