/** What proofs cost. Build first: it runs `dist/main.js`. */
import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { scanFullBlock, type Span } from '../../src/flow/index.js';
import type * as Proof from '../../src/proof/index.js';
import { fullBlockMessage } from '../support/blockMessage.js';
import { sealedBlock, type Json } from '../support/proofReference.js';
import { blockVector } from '../support/provenBlocks.js';
import { drain, startDaemon, type Mode } from './lib/daemon.js';
import { built, runLimit } from './lib/limits.js';
import { followFresh } from './lib/followFresh.js';
import { startBenchNode } from './lib/node.js';
import { freshDirectory, ROOT } from './lib/processes.js';
import { atLeast, atMost, bench, digits, mediansTable } from './lib/report.js';
import { interleave, median, percentile, ratioOf } from './lib/statistics.js';

const HASHING_ROUNDS = 41;
const REPEATS = 200;
const SEED = 17;
const HEIGHTS = { dense: 4_000, empty: 40_000 };
const QUICK_HEIGHTS = { dense: 600, empty: 4_000 };
const PROVEN_HEIGHT = 50;
const MAIN = resolve(ROOT, 'dist/main.js');
const TIP = { history: 30, warmUpHeights: 20, heights: 120, quickHeights: 20 };

type Lengths = Span | number | readonly Lengths[];

/** Bytes of RLP of lists of fields. */
function rlpBytes(item: Lengths): number {
  const isList = Array.isArray(item);
  const own = isList ? item.reduce<number>((sum, each: Lengths) => sum + rlpBytes(each), 0) : 0;
  const bytes = isList ? own : typeof item === 'number' ? item : (item as Span).length;
  return bytes + (bytes < 56 ? 1 : bytes < 256 ? 2 : 3);
}

const { block: vector, resultIDs } = blockVector('v0.51');
const lists = vector.payload as Readonly<Record<string, readonly Json[]>>;
const receipts = [...(lists['Receipts'] ?? []), ...(lists['Receipts'] ?? []).slice(0, 2)];
const payload = {
  ...{ ...vector.payload, Seals: lists['Seals']?.slice(0, 1) },
  Receipts: receipts.map((each, index) => ({ ...each, ExecutorID: Buffer.alloc(32, index).toString('hex') })),
};
const header = { ...vector.header, LastViewTC: undefined };
const nothing = { ProtocolStateID: vector.payload['ProtocolStateID'] };
const full = fullBlockMessage(sealedBlock('H8P8', { header, payload }, resultIDs));
const empty = fullBlockMessage(sealedBlock('H8P8', { header, payload: nothing }, []));

const block = scanFullBlock(full);
const { parentVoterIndices, parentVoterSigData } = scanFullBlock(empty).header ?? {};
const hashed = [
  rlpBytes([12, 32, 5, 32, 7, 3, 3, parentVoterIndices ?? 0, parentVoterSigData ?? 0, 32, 32]),
  5 * 32,
  ...block.guarantees.map((each) =>
    rlpBytes([32, 32, each.clusterChainId, each.signerIndices, each.signature]),
  ),
  ...block.seals.map((seal) => rlpBytes([32, 32, 32, seal.approvals.map((each) => Object.values(each))])),
  ...block.receipts.map((each) => rlpBytes([[32, 32, each.spocks], each.executorSignature])),
].map((length) => new Uint8Array(length));
/** As many ids as each Merkle root has: guarantees, seals, receipts, results. */
const roots = [block.guarantees, block.seals, block.receipts, block.results].map((items) =>
  items.map((_, index) => hash('sha3-256', Buffer.of(index), 'binary')),
);

const { BlockHasher, BlockProver } = (await built('proof/index.ts')) as typeof Proof;
const prover = new BlockProver({ chainId: 'flow-mainnet' });
const hasher = new BlockHasher();
const target = Buffer.alloc(32);
const prove = (message: Buffer) => (): void => {
  if (prover.prove(message).kind !== 'proven') throw new Error('the block is not proven');
};
const BARE = 'its hashes and roots, and nothing else';
const subjects = {
  [BARE]: (): void => {
    for (const bytes of hashed) hash('sha3-256', bytes, 'binary');
    for (const ids of roots) hasher.root(ids, target, 0);
  },
  'block with 5 guarantees, 1 seal, 6 receipts, 2 results': prove(full),
  'empty block': prove(empty),
};
const [, whole = ''] = Object.keys(subjects);

await bench(
  {
    title: 'Proving',
    about:
      `Recomputing the id of a full block of ${full.length} bytes, in process: ${hashed.length} times SHA3, and four Merkle roots. ` +
      'Then catching up as above, but with the real ids and certificates that a chain has: auto, every block proven; off, nodes are ' +
      'believed. Bare drain: grpc-js reads the stream of full blocks, messages as the bytes that came, nothing else. ' +
      'At the tip: fresh blocks every 500 ms as in "At the tip", from the moment at which the node has all of a height until that can be ' +
      'read, and processor time of the main thread; every certificate is verified, or there are none. ' +
      'check-proof: the whole process, for a block whose proof ends by a certificate.',
  },
  async ({ quick, rounds }) => {
    const measured = Object.entries(subjects).map(([name, run]): [string, () => number] => [
      name,
      () => {
        const start = performance.now();
        for (let repeat = 0; repeat < REPEATS; repeat++) run();
        return ((performance.now() - start) * 1000) / REPEATS;
      },
    ]);
    const samples = await interleave(Object.fromEntries(measured), { rounds: quick ? 9 : HASHING_ROUNDS });
    const speeds = await catchUps(quick ? QUICK_HEIGHTS : HEIGHTS, rounds);
    const tip = await followTip(quick ? TIP.quickHeights : TIP.heights);
    const ratio = (of: keyof typeof speeds, to: keyof typeof speeds) => ratioOf(speeds[of], speeds[to]);
    const { auto, off, 'auto, no certificates': bare } = tip;
    return {
      tables: [
        mediansTable('A block', ['step', 'µs'], samples),
        mediansTable('Catching up', ['what', 'heights/s'], speeds),
        {
          title: 'At the tip',
          columns: ['what', 'readable p50, ms', 'main thread, ms per block'],
          rows: Object.entries(tip).map(([name, { lateMs, mainThreadMsPerHeight }]) => [
            ...[name, digits(percentile(lateMs, 0.5)), digits(mainThreadMsPerHeight)],
          ]),
        },
      ],
      figures: [
        atMost(1.5, 'proving ÷ its hashes and roots', ratioOf(samples[whole] ?? [], samples[BARE] ?? [])),
        atLeast(0.8, 'EDI only, auto ÷ off', ratio('EDI only, auto', 'EDI only, off')),
        atLeast(0.85, 'requester only, auto ÷ off', ratio('requester only, auto', 'requester only, off')),
        atLeast(
          0.6,
          'empty blocks, auto ÷ bare drain',
          ratio('empty blocks, auto', 'empty blocks, bare drain'),
        ),
        atMost(
          1.15,
          'tip, readable p50, auto ÷ off',
          percentile(auto.lateMs, 0.5) / percentile(off.lateMs, 0.5),
        ),
        atMost(
          1.05,
          'tip, main thread per block, every certificate ÷ none',
          auto.mainThreadMsPerHeight / bare.mainThreadMsPerHeight,
        ),
        atMost(0.5, 'check-proof', await checkSeconds(rounds), 's'),
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
  const certified = { hashedIds: true, certificatesEvery: 1 };
  const node = await startBenchNode({ seed: SEED, profile: 'dense', heights: 100, ...certified });
  const dataDir = freshDirectory();
  const daemon = await startDaemon({ node: node.address, mode: 'edi-only', dataDir, startHeight: 0 });
  const provenHeight = async () => (await daemon.metrics()).sum('proven_height');
  while ((await provenHeight()) < PROVEN_HEIGHT) await sleep(100);
  await daemon.ends('SIGTERM');
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
