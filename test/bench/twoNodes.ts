import { at, followTip } from '../simulation/tipTimes.js';
import type { TipNode } from '../simulation/tipTimes.js';

/**
 * What a second node costs at the tip when it is late or slow: from the moment at which some node has all of a block until
 * it can be read, and the calls per block. In virtual time: the numbers are the same on every machine.
 *
 *   npx tsx test/bench/twoNodes.ts [BLOCKS]
 */
const blocks = Number(process.argv[2] ?? 300);
/** As measured on a network: half of the collections within 105 ms of their block, nine of ten within 242 ms. */
const usual = { collectionLagMs: 46, collectionLagSpreadMs: 85 };
const jitter = { slowShare: 0.1, slowMs: 200 };

const cases: readonly (readonly [name: string, nodes: readonly TipNode[]])[] = [
  ['one node', [{}]],
  ['two alike', [{}, {}]],
  ['blocks 20 ms late at the second', [{}, { blocksLateMs: 20 }]],
  ['blocks 100 ms late at the second', [{}, { blocksLateMs: 100 }]],
  ['blocks 100 ms late at the first', [{ blocksLateMs: 100 }, {}]],
  ['blocks 300 ms late at the third', [{}, {}, { blocksLateMs: 300 }]],
  ['100 ms to the second and back', [{}, { linkMs: 50 }]],
  ['300 ms to the second and back', [{}, { linkMs: 150 }]],
  ['one message in ten up to 200 ms', [jitter, jitter]],
  ['collections: one node', [usual]],
  ['collections: two alike', [usual, usual]],
  ['collections: 100 ms to the second', [usual, { ...usual, linkMs: 50 }]],
  ['collections: 300 ms to the second', [usual, { ...usual, linkMs: 150 }]],
  ['collections: 150 ms later at the second', [usual, { ...usual, collectionLagMs: 196 }]],
  ['collections: blocks 100 ms late', [usual, { ...usual, blocksLateMs: 100 }]],
  [
    'collections: jitter at both',
    [
      { ...usual, ...jitter },
      { ...usual, ...jitter },
    ],
  ],
];

for (const [name, nodes] of cases) {
  const { calls, lateMs } = await followTip(nodes, blocks);
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((share) => at(lateMs, share).toFixed(0).padStart(4));
  const [blockCalls, collectionCalls] = ['GetBlockByHeight', 'GetFullCollectionByID'].map((method) =>
    (calls[method] ?? 0).toFixed(2),
  );
  process.stdout.write(
    `${name.padEnd(40)} p50 ${p50}  p90 ${p90}  p99 ${p99} ms; calls per block: ${blockCalls} for blocks, ${collectionCalls} for collections\n`,
  );
}
process.exit(0);
