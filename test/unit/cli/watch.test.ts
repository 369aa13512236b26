import { expect, it } from 'vitest';
import { runCommandLine, type Terminal } from '../../../src/cli/index.js';
import { eventually, recordingTerminal, runInProcess, ServedChain, smallChain } from '../../support/index.js';
import { renderBackfill } from '../../../src/cli/output/backfillPage.js';

const served = (): Promise<ServedChain> => ServedChain.start(smallChain(100, [[], []]), { sealed: 101 });

/** A watch that runs; `change` makes its terminal. */
function watching(port: number, flags: readonly string[], change: Partial<Terminal> = {}) {
  const ending = new AbortController();
  const { terminal, printed } = recordingTerminal({ signal: ending.signal, ...change });
  const ended = runCommandLine(['status', '--watch', '--api-port', String(port), ...flags], terminal);
  const sees = (text: string): Promise<true> =>
    eventually(() => printed.out.includes(text) || printed.err.includes(text));
  return { printed, ended, sees, end: () => ending.abort() };
}

const SCREEN_ON = '\u001b[?1049h';
const SCREEN_OFF = '\u001b[?1049l';
/** What a terminal acts on. */
const sequences = /\p{Cc}\[[?\d;]*[a-zA-Z]/gu;

/** What the terminal shows after the last page. */
function lastPage(out: string): string[] {
  const page = out.slice(out.lastIndexOf('\u001b[H'));
  return page.replaceAll(sequences, '').split('\r\n');
}

it('prints a line each time where there is no terminal, and a word when the daemon goes', async () => {
  const chain = await served();
  const watch = watching(chain.port, []);
  await watch.sees('\nindexed through 101; head 101');
  await chain.stop();
  await watch.sees('The daemon does not answer any more; still asking.\n');
  watch.end();
  expect(await watch.ended).toBe('done');
  expect(watch.printed.out).not.toContain('\u001b');
  expect(watch.printed.out).toMatch(/not ready: behind\n/);
});

it('tells in each line how far history and its ranges are', async () => {
  const range = (from: number, state: 'running' | 'failed') => ({
    ...{ from, to: from + 999, state, next: from + 250, rate: 25, eta: 30 },
    ...{ failures: 0, reason: null, waitingFor: null },
  });
  const others = { ...range(5_000, 'running'), rate: 0, eta: null };
  const running = [1, 2, 3, 4].map((index) => range(1_000 * index, 'running'));
  const ranges = [range(0, 'failed'), ...running, others];
  const heights = { from: 0, to: 9_999, missingHeights: 7_500 };
  const plan = { id: 1, ...heights, order: 'newest', state: 'active', untakenVersion: null } as const;
  const pace = { missingHeights: 7_500, rate: 125, eta: 60, heldBack: null };
  const backfill = { ...pace, plans: [plan], ranges, unserved: [] };
  const chain = await ServedChain.start(smallChain(100, [[], []]), { sealed: 101 }, { told: { backfill } });
  const watch = watching(chain.port, []);
  await watch.sees(
    '; history 7,500 heights to go, 125.0/s, ETA 1m 0s (0 to 999 failed 25%, 1,000 to 1,999 running 25%, ' +
      '2,000 to 2,999 running 25%, 3,000 to 3,999 running 25%, 2 more); not ready: behind\n',
  );
  watch.end();
  expect(await watch.ended).toBe('done');
  const { out } = await runInProcess(['status', '--api-port', String(chain.port)]);
  expect(out).toContain('range 4,000 to 4,999: running, 25%, 25.0/s, ETA 30s\n');
  // Another process works on it, as on all others here.
  expect(renderBackfill({ ...backfill, rate: 0, eta: null })).toContain('7,500 heights to go\nplan 1');
  expect(out).toContain('range 5,000 to 5,999: running, 25%\n');
});

it('--json prints documents and nothing else', async () => {
  const chain = await served();
  const watch = watching(chain.port, ['--json'], { isTerminal: true });
  await watch.sees('}\n{');
  await chain.stop();
  await watch.sees('still asking');
  watch.end();
  expect(await watch.ended).toBe('done');
  const lines = watch.printed.out.trimEnd().split('\n');
  for (const line of lines) expect(JSON.parse(line)).toMatchObject({ latestIndexed: 101 });
  expect(watch.printed.err).toContain('The daemon does not answer any more');
});

it('is an error when no daemon answers at first', async () => {
  expect(await runInProcess(['status', '--watch', '--api-port', '1'])).toMatchObject({ exit: 'no_daemon' });
});

it.each([
  [120, 40],
  [80, 24],
  [36, 30],
  [12, 5],
  [1, 1],
])('fits a terminal of %i columns and %i lines, and says why it is not ready', async (columns, rows) => {
  const log = Array.from({ length: 40 }, () => ({
    output: 'a',
    reason: 'full',
    lostLines: 1,
    ageSeconds: 3,
  }));
  const chain = await ServedChain.start(smallChain(100, [[], []]), { sealed: 101 }, { told: { log } });
  const size = { isTerminal: true, columns: () => columns, rows: () => rows };
  const watch = watching(chain.port, [], size);
  await watch.sees(SCREEN_ON);
  watch.end();
  await watch.ended;
  const [screen = ''] = watch.printed.out.split(SCREEN_OFF);
  const page = lastPage(screen);
  expect(page.length).toBeLessThanOrEqual(rows);
  for (const line of page) expect(line.length).toBeLessThan(Math.max(2, columns));
  const text = page.join(' ').replaceAll(/\s+/g, ' ');
  if (columns >= 36) expect(text).toMatch(/2 heights, complete.* ready:? no .*behind: 11 heights behind/);
});

it('says on the page that the daemon is away, and keeps what it said last', async () => {
  const chain = await ServedChain.start(smallChain(100, [[], []]), { sealed: 101 }, { told: { eta: 0 } });
  const watch = watching(chain.port, [], { isTerminal: true });
  await watch.sees('2 heights, complete');
  await chain.stop();
  await watch.sees('The daemon has not answered for');
  watch.end();
  await watch.ended;
  const [screen = ''] = watch.printed.out.split(SCREEN_OFF);
  expect(lastPage(screen).join('\n')).toContain('2 heights, complete');
  expect(screen).not.toContain('at the head in');
});
