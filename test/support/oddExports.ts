import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { writeStore } from './chainReference.js';
import { oddTransactions } from './oddTransactions.js';
import { scratchDirectory } from './program.js';
import { storeFlags } from './storeDump.js';
import { runInProcess } from './terminal.js';

export const FIRST = 95;
export const blocks = oddTransactions(FIRST);
export const LAST = FIRST + blocks.length - 1;

export type Line = Readonly<Record<string, unknown>>;

/** Each ends with a line feed. */
export function linesOf(text: string): Line[] {
  const lines = text.split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Line);
}

/** Exports of a store of these blocks, for the tests of the file that calls this. */
export function useOddExports() {
  const dataDir = mkdtempSync(join(tmpdir(), 'fci-odd-'));
  beforeAll(() => writeStore(dataDir, blocks));
  afterAll(() => rmSync(dataDir, { recursive: true }));
  const run = (...flags: string[]) => runInProcess(['export', ...storeFlags(dataDir), ...flags]);
  const exported = async (...flags: string[]): Promise<string> => {
    const directory = join(scratchDirectory(), 'files');
    expect(await run('--output', directory, ...flags)).toMatchObject({ exit: 'done', message: '' });
    return directory;
  };
  return { run, exported };
}
