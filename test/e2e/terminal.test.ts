import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually, programPath, ServedChain, smallChain, startProgram } from '../support/daemons.js';
import type { Program } from '../support/daemons.js';

const INDEXED = 'indexed      100 to 101: 2 heights, complete';

/** The real process, whose standard input and output pass for a terminal, once it shows its page. */
async function watching(columns = 80, rows = 24): Promise<Program> {
  const chain = await ServedChain.start(smallChain(100, [[], []]), { sealed: 101 });
  const script = ['--import', join(import.meta.dirname, '../support/fakeTty.mjs'), programPath];
  const program = startProgram(
    ['status', '--watch', '--api-port', String(chain.port)],
    { TTY_COLUMNS: String(columns), TTY_ROWS: String(rows) },
    { script, stdin: 'pipe' },
  );
  await eventually(() => program.stdout.includes(INDEXED));
  expect(modesOf(program)).toEqual({ otherScreen: true, cursor: false, wraps: false });
  return program;
}

/** What it asked of the terminal last. */
function modesOf({ stdout }: Program) {
  const isOn = (mode: number): boolean =>
    [...stdout.matchAll(new RegExp(`\\p{Cc}\\[\\?${mode}([hl])`, 'gu'))].at(-1)?.[1] === 'h';
  return { otherScreen: isOn(1049), cursor: isOn(25), wraps: isOn(7) };
}

/** The terminal is as it was, with what was shown last on it. */
function expectGivenBack(program: Program): void {
  expect(modesOf(program)).toEqual({ otherScreen: false, cursor: true, wraps: true });
  expect(program.stdout.split('\u001b[?1049l').at(-1)).toContain(INDEXED);
  expect(program.stderr).toBe('keys one by one\nkeys by the line\n');
}

it.each(['q', '\u0003'])('is a page of its own until %j is pressed', async (key) => {
  const program = await watching();
  // Of other keys nothing is seen, and the page goes on.
  program.type('x\u001b[A');
  const pages = (): number => program.stdout.split('\u001b[H').length;
  const before = pages();
  await eventually(() => pages() > before);
  program.type(key);
  expect(await program.exited).toBe(0);
  expectGivenBack(program);
});

it('is one too where nobody knows the size, and gives the terminal back when a signal ends it', async () => {
  const program = await watching(0, 0);
  expect(await program.stop('SIGTERM')).toBe(0);
  expectGivenBack(program);
});
