/** What proving a full block costs, against the same hashes and nothing else. */
import { hash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { scanFullBlock, type Span } from '../../src/flow/index.js';
import { BlockHasher, BlockProver } from '../../src/proof/index.js';
import { fullBlockMessage } from '../support/blockMessage.js';
import { sealedBlock, type Json } from '../support/proofReference.js';
import { blockVector } from '../support/provenBlocks.js';
import { bench, digits } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';

const ROUNDS = 41;
const REPEATS = 200;

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
    about: `Recomputing the id of a full block of ${full.length} bytes: ${hashed.length} times SHA3, and four Merkle roots. In process.`,
  },
  async ({ quick }) => {
    const measured = Object.entries(subjects).map(([name, run]): [string, () => number] => [
      name,
      () => {
        const start = performance.now();
        for (let repeat = 0; repeat < REPEATS; repeat++) run();
        return ((performance.now() - start) * 1000) / REPEATS;
      },
    ]);
    const samples = await interleave(Object.fromEntries(measured), { rounds: quick ? 9 : ROUNDS });
    const rows = Object.entries(samples).map(([name, values]) => [name, digits(median(values))]);
    const value = ratioOf(samples[whole] ?? [], samples[BARE] ?? []);
    return {
      tables: [{ title: 'A block', columns: ['step', 'µs'], rows }],
      figures: [{ what: 'proving ÷ its hashes and roots', value, atMost: 1.5 }],
    };
  },
);
