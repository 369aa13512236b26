/**
 * What proofs cost: catching up and following the tip with everything proven, and checking a document. Build
 * first: it runs `dist/main.js`.
 */
import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { drain, startDaemon, sumOfMetrics } from './lib/daemon.js';
import type { Mode } from './lib/daemon.js';
import { runLimit } from './lib/limits.js';
import { followFresh } from './lib/followFresh.js';
import { startBenchNode } from './lib/node.js';
import { freshDirectory, ROOT } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import { interleave, median, percentile, ratioOf } from './lib/statistics.js';

const SEED = 17;
const HEIGHTS = { dense: 4_000, empty: 40_000 };
const QUICK_HEIGHTS = { dense: 600, empty: 4_000 };
/** Of the block whose document is checked. */
const PROVEN_HEIGHT = 50;
const MAIN = resolve(ROOT, 'dist/main.js');
/** A block every half second. */
const TIP = { history: 30, warmUpHeights: 20, heights: 120, quickHeights: 20 };

await bench(
  {
    title: 'Proving',
    about:
      'Catching up as above, but with the real ids and certificates that a chain has: auto, every block proven; off, nodes are ' +
      'believed. Bare drain: grpc-js reads the stream of full blocks, messages as the bytes that came, nothing else. ' +
      'At the tip: fresh blocks every 500 ms as in "At the tip", from the moment at which the node has all of a height until that can be ' +
      'read, and processor time of the main thread; every certificate is verified, or there are none. ' +
      'check-proof: the whole process, for a block whose proof ends by a certificate.',
  },
  async ({ quick, rounds }) => {
    const speeds = await catchUps(quick ? QUICK_HEIGHTS : HEIGHTS, rounds);
    const tip = await followTip(quick ? TIP.quickHeights : TIP.heights);
    const ratio = (what: string, of: keyof typeof speeds, to: keyof typeof speeds, atLeast: number) => ({
      ...{ what, value: ratioOf(speeds[of], speeds[to]), atLeast },
    });
    return {
      tables: [
        {
          title: 'Catching up',
          columns: ['what', 'heights/s'],
          rows: Object.entries(speeds).map(([name, values]) => [name, digits(median(values))]),
        },
        {
          title: 'At the tip',
          columns: ['what', 'readable p50, ms', 'main thread, ms per block'],
          rows: Object.entries(tip).map(([name, { lateMs, mainThreadMsPerHeight }]) => [
            ...[name, digits(percentile(lateMs, 0.5)), digits(mainThreadMsPerHeight)],
          ]),
        },
      ],
      figures: [
        ratio('EDI only, auto ÷ off', 'EDI only, auto', 'EDI only, off', 0.8),
        ratio('requester only, auto ÷ off', 'requester only, auto', 'requester only, off', 0.85),
        ratio('empty blocks, auto ÷ bare drain', 'empty blocks, auto', 'empty blocks, bare drain', 0.6),
        {
          what: 'tip, readable p50, auto ÷ off',
          value: percentile(tip.auto.lateMs, 0.5) / percentile(tip.off.lateMs, 0.5),
          atMost: 1.15,
        },
        {
          what: 'tip, main thread per block, every certificate ÷ none',
          value: tip.auto.mainThreadMsPerHeight / tip['auto, no certificates'].mainThreadMsPerHeight,
          atMost: 1.05,
        },
        { what: 'check-proof', value: await checkSeconds(rounds), unit: 's', atMost: 0.5 },
      ],
    };
  },
);

async function catchUps(heights: typeof HEIGHTS, rounds: number) {
  const chain = { seed: SEED, hashedIds: true };
  const [dense, empty] = await Promise.all([
    startBenchNode({ ...chain, profile: 'dense', heights: heights.dense }),
    startBenchNode({ ...chain, profile: 'empty', heights: heights.empty }),
  ]);
  const run = (mode: Mode, proof: 'auto' | 'off', node = dense, to = heights.dense) => {
    const flags = ['--proof-mode', proof];
    return async () => (await drain({ node: node.address, mode, heights: to, flags })).heightsPerSecond;
  };
  const speeds = await interleave(
    {
      'EDI only, auto': run('edi-only', 'auto'),
      'EDI only, off': run('edi-only', 'off'),
      'requester only, auto': run('requester-only', 'auto'),
      'requester only, off': run('requester-only', 'off'),
      'empty blocks, auto': run('edi-only', 'auto', empty, heights.empty),
      'empty blocks, bare drain': () =>
        runLimit('bareDrain', { node: empty.address, heights: heights.empty, fullBlocks: true }),
    },
    { rounds },
  );
  for (const node of [dense, empty]) node.close();
  return speeds;
}

async function followTip(heights: number) {
  const { history, warmUpHeights } = TIP;
  const follow = (proof: 'auto' | 'off', certificatesEvery: 0 | 1) =>
    followFresh({
      ...{ profile: 'dense', history, warmUpHeights, heights, flags: ['--proof-mode', proof] },
      chain: { seed: SEED, hashedIds: true, certificatesEvery },
    });
  return {
    auto: await follow('auto', 1),
    off: await follow('off', 1),
    'auto, no certificates': await follow('auto', 0),
  };
}

async function checkSeconds(rounds: number): Promise<number> {
  const node = await startBenchNode({
    seed: SEED,
    profile: 'dense',
    heights: 100,
    hashedIds: true,
    certificatesEvery: 1,
  });
  const dataDir = freshDirectory();
  const daemon = await startDaemon({ node: node.address, mode: 'edi-only', dataDir, startHeight: 0 });
  while (sumOfMetrics(await daemon.metrics(), 'proven_height ') < PROVEN_HEIGHT) await sleep(100);
  await daemon.stop();
  node.close();
  const document = join(dataDir, 'proof.json');
  program('prove', String(PROVEN_HEIGHT), '--network', 'devnet', '--data-dir', dataDir, '--output', document);
  const seconds = Array.from({ length: Math.max(3, rounds) }, () => {
    const startedAtMs = performance.now();
    const said = program('check-proof', document);
    if (!said.includes('is final')) throw new Error(`the proof does not end by a certificate: ${said}`);
    return (performance.now() - startedAtMs) / 1_000;
  });
  return median(seconds);
}

function program(...args: readonly string[]): string {
  const { status, stderr, stdout } = spawnSync(process.execPath, [MAIN, ...args], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${args[0]} ended with ${status}: ${stderr}`);
  return stdout;
}
