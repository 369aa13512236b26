/**
 * The daemon under everything at once, for as long as asked: it catches up, follows a growing chain, falls behind again
 * and again, is read all the while, and its access nodes slow down, fail, lie and die (`weather.ts`). In the end it must
 * have stayed as it was in memory, descriptors and event-loop delay, have answered every read rightly, have reached the
 * head, and hold the chain and nothing else. Build first (`npm run soak` does).
 *
 *     --minutes N       [30]
 *     --seed N          of weather and reads [1]
 *     --report FILE     writes the result as JSON
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ChainGenerator } from '../../src/devnet/index.js';
import { seededRandom } from '../support/seededRandom.js';
import { startDaemon } from '../bench/lib/daemon.js';
import { freshDirectory } from '../bench/lib/processes.js';
import { formatTable } from '../bench/lib/report.js';
import { storePath, withStore } from '../support/storeDump.js';
import { Reader } from './Reader.js';
import { SoakNodes } from './SoakNodes.js';
import { Watch } from './Watch.js';
import { forecast } from './weather.js';
import { conclude, textOf, wholeNumber } from '../support/campaign.js';
import { scriptOptions } from '../support/scriptOptions.js';
import { proveStore } from '../support/provenStore.js';

const NODES = 3;
const PROFILE = 'mainnet';
const FIRST_HEIGHT = 1;
const HISTORY_HEIGHTS = 20_000;
const BLOCK_INTERVAL_MS = 100;
const LEAP_HEIGHTS = 3_000;
const LEAP_EVERY_MS = 60_000;
const SAMPLE_EVERY_MS = 2_000;
const READ_EVERY_MS = 20;
const TELL_EVERY_MS = 30_000;
/** In fair weather the head must be reached within so long, whatever was before. */
const RECOVERY_MS = 60_000;
/** The chain does not stand still while it is reached: so near is there. */
const NEAR_HEIGHTS = 20;

const { values: args } = scriptOptions({
  options: {
    minutes: { type: 'string', default: '30' },
    seed: { type: 'string', default: '1' },
    report: { type: 'string' },
  },
});
const minutes = Number(args.minutes);
const seed = wholeNumber('seed', args.seed);
if (!(minutes > 0)) throw new Error(`--minutes takes a number above 0, got ${args.minutes}`);

const chain = new ChainGenerator({ seed, profile: PROFILE });
const nodes = await SoakNodes.start(NODES, {
  ...{ seed, profile: PROFILE, startHead: HISTORY_HEIGHTS, blockIntervalMs: BLOCK_INTERVAL_MS },
});
const dataDir = freshDirectory();
const [first = '', ...others] = nodes.addresses;
const daemon = await startDaemon({
  ...{ node: first, mode: 'hybrid', dataDir, startHeight: FIRST_HEIGHT },
  flags: others.flatMap((address) => ['--access-node', address]),
});
const watch = new Watch({
  pid: daemon.process.pid ?? 0,
  metricsUrl: `http://127.0.0.1:${daemon.metricsPort}`,
});
const apiUrl = `http://127.0.0.1:${daemon.apiPort}`;
const reader = new Reader({ apiUrl, chain, random: seededRandom(seed + 1) });
const startedAtMs = performance.now();
const endsAtMs = startedAtMs + minutes * 60_000;
const failures: string[] = [];
let under: string[] = [];
let spellCount = 0;
const daemonState = { isUp: true };
void daemon.exited.then((code) => {
  if (daemonState.isUp) failures.push(`the daemon ended by itself with ${String(code)}`);
  daemonState.isUp = false;
});

const isOver = (): boolean => !daemonState.isUp || performance.now() >= endsAtMs;

/** Waits, but not beyond the end. */
async function pause(durationMs: number): Promise<void> {
  const untilMs = Math.min(performance.now() + durationMs, endsAtMs);
  while (daemonState.isUp && performance.now() < untilMs)
    await sleep(Math.min(100, untilMs - performance.now()));
}

async function weather(): Promise<void> {
  const random = seededRandom(seed + 2);
  while (!isOver()) {
    const { spell, nodes: befallen, durationMs, pauseMs } = forecast(random, NODES);
    under = befallen.map((index) => `${spell.name} at node ${index}`);
    spellCount += 1;
    for (const index of befallen) {
      if (spell.rules === undefined) await nodes.kill(index);
      else nodes.setFaults(index, spell.rules);
    }
    await pause(durationMs);
    for (const index of befallen) {
      if (spell.rules === undefined) await nodes.revive(index);
      else nodes.setFaults(index, []);
    }
    under = [];
    await pause(pauseMs);
  }
}

async function leaps(): Promise<void> {
  for (;;) {
    await pause(LEAP_EVERY_MS);
    if (isOver()) return;
    nodes.leap(LEAP_HEIGHTS);
  }
}

async function reads(): Promise<void> {
  while (!isOver()) {
    const latest = watch.samples.at(-1)?.indexed ?? 0;
    if (latest >= FIRST_HEIGHT) await reader.readAmong(FIRST_HEIGHT, latest);
    await sleep(READ_EVERY_MS);
  }
}

async function samples(): Promise<void> {
  while (!isOver()) {
    await watch.take();
    const live = await fetch(`http://127.0.0.1:${daemon.metricsPort}/livez`);
    if (live.status !== 200) failures.push(`/livez answered ${live.status}`);
    await pause(SAMPLE_EVERY_MS);
  }
}

async function telling(): Promise<void> {
  for (;;) {
    await pause(TELL_EVERY_MS);
    const sample = watch.samples.at(-1);
    if (sample === undefined || isOver()) return;
    const at = Math.round((performance.now() - startedAtMs) / 1000);
    process.stdout.write(
      `${at} s: indexed ${sample.indexed} of ${nodes.head}, ${Math.round(sample.memoryBytes / 2 ** 20)} MiB, ` +
        `${sample.descriptors} descriptors, event loop ${sample.loopDelayMs.toFixed(1)} ms, ` +
        `${reader.reads} reads, ${reader.faultCount} wrong; weather: ${under.join(', ') || 'fair'}\n`,
    );
  }
}

process.stdout.write(`soaking for ${minutes} minutes with seed ${seed}\n`);
await Promise.all([weather(), leaps(), reads(), samples(), telling()]);

let recoveredInMs: number | undefined;
if (daemonState.isUp) {
  const fairFromMs = performance.now();
  while (recoveredInMs === undefined && performance.now() - fairFromMs < RECOVERY_MS) {
    const { indexed } = await watch.take();
    if (indexed >= nodes.head - NEAR_HEIGHTS) recoveredInMs = performance.now() - fairFromMs;
    else await sleep(SAMPLE_EVERY_MS / 10);
  }
  if (recoveredInMs === undefined) failures.push(`the head was not reached within ${RECOVERY_MS} ms`);
  daemonState.isUp = false;
  await daemon.stop();
}
await nodes.close();

const heights = await prove();
for (const { name, before, after, limit, unit } of watch.flatness()) {
  if (after > limit) failures.push(`${name} grew from ${before} to ${after} ${unit}, allowed is ${limit}`);
}
if (reader.faultCount > 0) failures.push(`${reader.faultCount} reads were answered wrongly`);
process.stdout.write(
  formatTable({
    title: `${minutes} minutes`,
    columns: ['what', 'before', 'after', 'at most'],
    rows: watch
      .flatness()
      .map(({ name, before, after, limit, unit }) => [
        `${name}${unit === '' ? '' : `, ${unit}`}`,
        ...[before, after, limit].map((value) => value.toFixed(unit === 'ms' ? 1 : 0)),
      ]),
  }),
);
for (const { path, detail } of reader.faults) process.stdout.write(`read ${path}: ${detail}\n`);
for (const failure of failures) process.stdout.write(`FAILED: ${failure}\n`);
conclude(
  {
    ...{ runs: minutes, failures: failures.length, unit: 'minutes' },
    remark: `${spellCount} spells of faults, ${reader.reads} reads, ${heights} heights`,
  },
  args.report,
  { seed, recoveredInMs, failed: failures },
);
process.exit();

/** Every height of the store is the chain's, and nothing in it is damaged. Answers how many there are. */
async function prove(): Promise<number> {
  const latestHeight = await withStore(storePath(dataDir), (store) =>
    Promise.resolve(store.latestIndexedHeight()),
  );
  await proveStore(dataDir, { firstHeight: FIRST_HEIGHT, latestHeight, chainAt: () => chain }).catch(
    (error: unknown) => failures.push(textOf(error)),
  );
  return latestHeight - FIRST_HEIGHT + 1;
}
