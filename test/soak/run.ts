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
import { formatTable } from '../bench/lib/report.js';
import { storePath, withStore } from '../support/storeDump.js';
import { Reader } from './Reader.js';
import { SoakNodes } from './SoakNodes.js';
import { watchOver } from './watch.js';
import { forecast } from './weather.js';
import { conclude, textOf, wholeNumber } from '../support/campaign.js';
import { withCleanup } from '../support/cleanup.js';
import { scratchDirectory } from '../support/program.js';
import { startArguments, startDaemon } from '../support/runningDaemon.js';
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

process.stdout.write(`soaking for ${minutes} minutes with seed ${seed}\n`);
await withCleanup(soak);
process.exit();

async function soak(): Promise<void> {
  const chain = new ChainGenerator({ seed, profile: PROFILE });
  const nodes = await SoakNodes.start(NODES, {
    ...{ seed, profile: PROFILE, startHead: HISTORY_HEIGHTS, blockIntervalMs: BLOCK_INTERVAL_MS },
  });
  const dataDir = scratchDirectory();
  const [address = '', ...others] = nodes.addresses;
  const flags = others.flatMap((other) => ['--access-node', other]);
  const daemon = await startDaemon(
    startArguments({ address }, dataDir, '--start-height', String(FIRST_HEIGHT), ...flags),
  );
  const watch = watchOver(daemon);
  const reader = new Reader({ apiUrl: daemon.apiUrl, chain, random: seededRandom(seed + 1) });
  const startedAtMs = performance.now();
  const endsAtMs = startedAtMs + minutes * 60_000;
  const failures: string[] = [];
  let under: string[] = [];
  let spellCount = 0;
  const state = { isUp: true };
  void daemon.program.exited.then((code) => {
    if (state.isUp) failures.push(`the daemon ended by itself with ${code}`);
    state.isUp = false;
  });

  const isOver = (): boolean => !state.isUp || performance.now() >= endsAtMs;
  const pause = async (durationMs: number): Promise<void> => {
    const untilMs = Math.min(performance.now() + durationMs, endsAtMs);
    while (state.isUp && performance.now() < untilMs) await sleep(Math.min(100, untilMs - performance.now()));
  };

  const weather = async (): Promise<void> => {
    const random = seededRandom(seed + 2);
    while (!isOver()) {
      const { name, rule, nodes: befallen, durationMs, pauseMs } = forecast(random, NODES);
      under = befallen.map((index) => `${name} at node ${index}`);
      spellCount += 1;
      for (const index of befallen) {
        if (rule === undefined) await nodes.kill(index);
        else nodes.setFaults(index, [rule]);
      }
      await pause(durationMs);
      for (const index of befallen) {
        if (rule === undefined) await nodes.revive(index);
        else nodes.setFaults(index, []);
      }
      under = [];
      await pause(pauseMs);
    }
  };

  const leaps = async (): Promise<void> => {
    for (;;) {
      await pause(LEAP_EVERY_MS);
      if (isOver()) return;
      nodes.leap(LEAP_HEIGHTS);
    }
  };

  const reads = async (): Promise<void> => {
    while (!isOver()) {
      const latest = watch.samples.at(-1)?.indexed ?? 0;
      if (latest >= FIRST_HEIGHT) await reader.readAmong(FIRST_HEIGHT, latest);
      await sleep(READ_EVERY_MS);
    }
  };

  const samples = async (): Promise<void> => {
    while (!isOver()) {
      await watch.take();
      const { status } = await daemon.health('/livez');
      if (status !== 200) failures.push(`/livez answered ${status}`);
      await pause(SAMPLE_EVERY_MS);
    }
  };

  const telling = async (): Promise<void> => {
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
  };

  await Promise.all([weather(), leaps(), reads(), samples(), telling()]);

  let recoveredInMs: number | undefined;
  if (state.isUp) {
    const fairFromMs = performance.now();
    while (recoveredInMs === undefined && performance.now() - fairFromMs < RECOVERY_MS) {
      const { indexed } = await watch.take();
      if (indexed >= nodes.head - NEAR_HEIGHTS) recoveredInMs = performance.now() - fairFromMs;
      else await sleep(SAMPLE_EVERY_MS / 10);
    }
    if (recoveredInMs === undefined) failures.push(`the head was not reached within ${RECOVERY_MS} ms`);
    state.isUp = false;
    const code = await daemon.program.stop();
    if (code !== 0) failures.push(`the daemon ended with ${code}`);
  }

  // Every height of the store is the chain's, and nothing in it is damaged.
  const latestHeight = await withStore(storePath(dataDir), async (store) => store.latestIndexedHeight());
  const heights = { firstHeight: FIRST_HEIGHT, latestHeight };
  await proveStore(dataDir, { ...heights, chainAt: () => chain }).catch((error: unknown) =>
    failures.push(textOf(error)),
  );
  const rows = watch.flatness();
  for (const { name, before, after, limit } of rows)
    if (after > limit) failures.push(`${name} grew from ${before} to ${after}, allowed is ${limit}`);
  if (reader.faultCount > 0) failures.push(`${reader.faultCount} reads were answered wrongly`);
  process.stdout.write(
    formatTable({
      title: `${minutes} minutes`,
      columns: ['what', 'before', 'after', 'at most'],
      rows: rows.map(({ name, ...each }) => [
        ...[name, ...[each.before, each.after, each.limit].map((value) => value.toFixed(1))],
      ]),
    }),
  );
  for (const fault of reader.faults) process.stdout.write(`read ${fault}\n`);
  for (const failure of failures) process.stdout.write(`FAILED: ${failure}\n`);
  const count = latestHeight - FIRST_HEIGHT + 1;
  conclude(
    {
      ...{ runs: minutes, failures: failures.length, unit: 'minutes' },
      remark: `${spellCount} spells of faults, ${reader.reads} reads, ${count} heights`,
    },
    args.report,
    { seed, recoveredInMs, failed: failures },
  );
}
