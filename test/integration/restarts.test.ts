import { getEventListeners } from 'node:events';
import { readdirSync } from 'node:fs';
import { afterAll, expect, it, vi } from 'vitest';
import { openLifecycle } from '../../src/app/lifecycle/openLifecycle.js';
import { openUpstream, runIndexing } from '../../src/app/line/runIndexing.js';
import { loadConfig } from '../../src/config/index.js';
import { startDevnet, type DevnetHandle } from '../../src/devnet/index.js';
import { createMetrics } from '../../src/observability/index.js';
import type { Leadership } from '../../src/ranges/index.js';
import { sleep, systemClock, whenAborted } from '../../src/runtime/index.js';
import { RecordingLogger, seededRandom, useStores } from '../support/index.js';
import { Ledger } from '../simulation/Ledger.js';

const RESTARTS = 6;
/** What a line writes before the next one takes its place, with most of the window on its way. */
const HEIGHTS_OF_A_LINE = 3;
/** The live range begins above history, which is filled in beside it. */
const LIVE_FROM = 200;
const HISTORY_HEIGHTS = 30;
const RANGE_HEIGHTS = 5;
/** Of the finalized and the sealed head. */
const HEAD_STREAMS = 2;
const WAIT = { timeout: 120_000, interval: 20 };

function held(): Readonly<Record<string, number>> {
  const counts: Record<string, number> = { descriptors: readdirSync('/proc/self/fd').length };
  for (const name of process.getActiveResourcesInfo()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

/** More than before; empty when everything was given back. */
function grown(before: Readonly<Record<string, number>>): readonly string[] {
  // The worker of the tests talks to its parent.
  const own = new Set(['Immediate', 'PipeWrap', 'MessagePort']);
  return Object.entries(held())
    .filter(([name, count]) => !own.has(name) && count > (before[name] ?? 0))
    .map(([name, count]) => `${count} ${name}, ${before[name] ?? 0} before`);
}

vi.setConfig({ testTimeout: 300_000 });
const { freshPath, open } = useStores();
const devnets: DevnetHandle[] = [];
afterAll(async () => {
  for (const devnet of devnets) await devnet.close();
});

/** One daemon's indexing, in which another line takes over again and again. */
const run = async (devnet: DevnetHandle, streamed: boolean, lines: number, mostListening = Infinity) => {
  const flags = {
    ...{ network: 'devnet', accessNodes: devnet.address, startHeight: String(LIVE_FROM), window: '32' },
    'edi.enabled': String(streamed),
    'backfill.plan': String(LIVE_FROM - HISTORY_HEIGHTS),
  };
  const given = new Map(Object.entries(flags).map(([key, value]) => [key, [value]]));
  const { config } = loadConfig({ file: undefined, environment: {}, flags: given }, { isTerminal: false });
  const logger = new RecordingLogger();
  const lifecycle = openLifecycle({ clock: systemClock, logger });
  const store = await open(await freshPath());
  lifecycle.onClose('store', () => store.close());
  const upstream = openUpstream(config, {
    ...{ store, lifecycle, sporks: [], clock: systemClock, random: seededRandom(1), logger },
    ...{ metrics: createMetrics({ version: 'test', node: '' }), maxRangeHeights: RANGE_HEIGHTS },
  });
  const faults: string[] = [];
  const ledger = new Ledger({ parts: upstream, fail: (what) => faults.push(what) });
  const seen = { begun: 0, lines: 0, underWay: 0 };
  let term = { lost: new AbortController(), endsAt: Infinity };
  upstream.window.onMoved(() => {
    if (store.latestIndexedHeight() < term.endsAt || term.lost.signal.aborted) return;
    seen.underWay += Number(upstream.slots.inUse > 0 || devnet.openStreams() > HEAD_STREAMS);
    term.lost.abort();
  });
  const leadership: Leadership = {
    leader: () => undefined,
    // Called when no line runs.
    lead: async () => {
      seen.begun += 1;
      if (seen.lines === lines) {
        await whenAborted(lifecycle.signal);
        return undefined;
      }
      seen.lines += 1;
      const from = store.meta() === undefined ? LIVE_FROM : store.latestIndexedHeight();
      term = { lost: new AbortController(), endsAt: from + HEIGHTS_OF_A_LINE };
      return { lost: term.lost.signal, release: () => Promise.resolve() };
    },
  };
  const indexing = runIndexing(config, { ...upstream, leadership }, (line) => {
    if (line !== undefined) ledger.lineStarts(line);
  });
  ledger.opened();
  const running = lifecycle.waitFor('indexing', indexing);
  const isFilled = (): boolean => store.meta()?.firstHeight === LIVE_FROM - HISTORY_HEIGHTS;
  await expect.poll(() => [seen.begun, isFilled()], WAIT).toEqual([lines + 1, true]);
  // With the nodes alone.
  await expect.poll(() => [upstream.slots.inUse, upstream.backfill.running().length], WAIT).toEqual([0, 0]);
  ledger.afterStep();
  await expect.poll(() => devnet.openStreams(), WAIT).toBeLessThanOrEqual(HEAD_STREAMS);
  // The daemon's own loops, most of which listen at any moment, and the leadership.
  const listeners = (): number => getEventListeners(lifecycle.signal, 'abort').length;
  const looks = Array.from({ length: 100 }, (_, look) => sleep(systemClock, 10 * look).then(listeners));
  const listening = Math.max(...(await Promise.all(looks)));
  await expect.poll(listeners, WAIT).toBeLessThanOrEqual(mostListening);
  lifecycle.stop();
  await running;
  await lifecycle.close();
  ledger.ended(false);
  return { ...seen, faults, listening };
};

it.each([
  ['asked for by id', false],
  ['streamed', true],
])('give back all that they had open, with collections %s', async (_, streamed) => {
  const devnet = await startDevnet({
    ...{ startHead: 2_000, blockIntervalMs: 10, executionData: streamed },
    faults: [{ method: 'GetFullCollectionByID', fault: 'latency', delayMs: 10, probability: 0.7 }],
  });
  devnets.push(devnet);
  // What is loaded once, and kept, is there before. Fewer loops begin later than there are lines.
  const { listening } = await run(devnet, streamed, 1);
  await expect.poll(() => devnet.openStreams(), WAIT).toBe(0);
  // Counted as it will be afterwards, with the timers of a poll.
  let before = held();
  await expect.poll(() => (before = held())['descriptors'], WAIT).toBeGreaterThan(0);
  const { faults, lines, underWay } = await run(devnet, streamed, RESTARTS + 1, listening + RESTARTS / 2);
  expect(lines).toBe(RESTARTS + 1);
  expect(underWay).toBeGreaterThan(RESTARTS / 2);
  expect(faults).toEqual([]);
  await expect.poll(() => devnet.openStreams(), WAIT).toBe(0);
  await expect.poll(() => grown(before), WAIT).toEqual([]);
});
