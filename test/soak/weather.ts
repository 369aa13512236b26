import type { FaultRule } from '../../src/devnet/index.js';
import type { Random } from '../../src/runtime/index.js';

const BODIES = 'GetFullCollectionByID';
const DATA = 'SubscribeExecutionData*';
const HEAD = 'GetLatestBlockHeader';

type Spell = readonly [name: string, rule?: FaultRule];

/** What goes wrong for a while, and what the nodes it befalls do meanwhile; without a rule they are killed, and start again. */
const faults: readonly Spell[] = [
  ['slow answers', { method: '*', fault: 'latency', delayMs: 400 }],
  ['errors', { method: '*', fault: 'error', code: 'UNAVAILABLE', probability: 0.3 }],
  ['rate limits', { method: 'Get*', fault: 'error', code: 'RESOURCE_EXHAUSTED', probability: 0.5 }],
  ['not found', { method: BODIES, fault: 'error', code: 'NOT_FOUND', probability: 0.5 }],
  ['silent streams', { method: 'Subscribe*', fault: 'stall', every: 50 }],
  ['streams that end', { method: 'Subscribe*', fault: 'cut', how: 'end', every: 20 }],
  ['broken connections', { method: '*', fault: 'cut', how: 'reset', every: 97 }],
  ['late execution data', { method: DATA, fault: 'execution_data_lag', blocks: 60 }],
  ['gaps and repeats', { method: DATA, fault: 'repeat', every: 13 }],
  ['a head that goes backwards', { method: HEAD, fault: 'head_backwards', blocks: 50, every: 2 }],
  ['oversized answers', { method: BODIES, fault: 'oversized', probability: 0.2 }],
];
/** Never of all nodes at once: who would know the truth then? */
const lies: readonly Spell[] = [
  ['wrong bodies', { method: BODIES, fault: 'wrong_body', probability: 0.2 }],
  ['other bodies', { method: BODIES, fault: 'other_body', probability: 0.2 }],
  ['swapped chunks', { method: DATA, fault: 'swapped_chunks', every: 9 }],
  ['missing chunks', { method: DATA, fault: 'missing_chunk', every: 9 }],
  ['truncated messages', { method: 'Subscribe*', fault: 'truncated', every: 31 }],
];
const spells = [...faults, ...lies, ['dead'] as const];

const DURATION_MS = { min: 4_000, max: 15_000 };
const PAUSE_MS = { min: 3_000, max: 10_000 };

export function forecast(random: Random, nodeCount: number) {
  const among = (count: number): number => Math.floor(random.next() * count);
  const between = ({ min, max }: { readonly min: number; readonly max: number }): number =>
    min + random.next() * (max - min);
  const spell: Spell = spells[among(spells.length)] ?? ['dead'];
  const [name, rule] = spell;
  const most = lies.includes(spell) ? nodeCount - 1 : nodeCount;
  const nodes = Array.from({ length: nodeCount }, (_, index) => index);
  while (nodes.length > 1 + among(most)) nodes.splice(among(nodes.length), 1);
  const befallen = nodes.slice(0, most);
  return { name, rule, nodes: befallen, durationMs: between(DURATION_MS), pauseMs: between(PAUSE_MS) };
}
