import type { FaultRule } from '../../src/devnet/index.js';
import type { Random } from '../../src/runtime/index.js';

/** Something that goes wrong for a while. */
export interface Spell {
  readonly name: string;
  /** What the nodes it befalls do meanwhile; absent: they are killed, and started again afterwards. */
  readonly rules?: readonly FaultRule[];
  /** Such nodes answer wrongly: never all of them at once, for who would know the truth then? */
  readonly isLie?: true;
}

/** All that a spell can be. */
export const spells: readonly Spell[] = [
  { name: 'slow answers', rules: [{ method: '*', fault: 'latency', delayMs: 400 }] },
  { name: 'errors', rules: [{ method: '*', fault: 'error', code: 'UNAVAILABLE', probability: 0.3 }] },
  {
    name: 'rate limits',
    rules: [{ method: 'Get*', fault: 'error', code: 'RESOURCE_EXHAUSTED', probability: 0.5 }],
  },
  {
    name: 'not found',
    rules: [{ method: 'GetFullCollectionByID', fault: 'error', code: 'NOT_FOUND', probability: 0.5 }],
  },
  { name: 'silent streams', rules: [{ method: 'Subscribe*', fault: 'stall', every: 50 }] },
  { name: 'streams that end', rules: [{ method: 'Subscribe*', fault: 'cut', how: 'end', every: 20 }] },
  { name: 'broken connections', rules: [{ method: '*', fault: 'cut', how: 'reset', every: 97 }] },
  {
    name: 'late execution data',
    rules: [{ method: 'SubscribeExecutionData*', fault: 'execution_data_lag', blocks: 60 }],
  },
  { name: 'gaps and repeats', rules: [{ method: 'SubscribeExecutionData*', fault: 'repeat', every: 13 }] },
  {
    name: 'a head that goes backwards',
    rules: [{ method: 'GetLatestBlockHeader', fault: 'head_backwards', blocks: 50, every: 2 }],
  },
  {
    name: 'oversized answers',
    rules: [{ method: 'GetFullCollectionByID', fault: 'oversized', probability: 0.2 }],
  },
  {
    name: 'wrong bodies',
    isLie: true,
    rules: [{ method: 'GetFullCollectionByID', fault: 'wrong_body', probability: 0.2 }],
  },
  {
    name: 'other bodies',
    isLie: true,
    rules: [{ method: 'GetFullCollectionByID', fault: 'other_body', probability: 0.2 }],
  },
  {
    name: 'swapped chunks',
    isLie: true,
    rules: [{ method: 'SubscribeExecutionData*', fault: 'swapped_chunks', every: 9 }],
  },
  {
    name: 'missing chunks',
    isLie: true,
    rules: [{ method: 'SubscribeExecutionData*', fault: 'missing_chunk', every: 9 }],
  },
  {
    name: 'truncated messages',
    isLie: true,
    rules: [{ method: 'Subscribe*', fault: 'truncated', every: 31 }],
  },
  { name: 'dead' },
];

const DURATION_MS = { min: 4_000, max: 15_000 };
const PAUSE_MS = { min: 3_000, max: 10_000 };

/** The next spell, drawn from the seed. */
export function forecast(random: Random, nodeCount: number) {
  const among = (count: number): number => Math.floor(random.next() * count);
  const between = ({ min, max }: { readonly min: number; readonly max: number }): number =>
    min + random.next() * (max - min);
  const spell = spells[among(spells.length)] ?? spells[0];
  if (spell === undefined) throw new Error('there is no weather');
  const most = spell.isLie === true ? nodeCount - 1 : nodeCount;
  const nodes = Array.from({ length: nodeCount }, (_, index) => index);
  while (nodes.length > 1 + among(most)) nodes.splice(among(nodes.length), 1);
  return { spell, nodes: nodes.slice(0, most), durationMs: between(DURATION_MS), pauseMs: between(PAUSE_MS) };
}
