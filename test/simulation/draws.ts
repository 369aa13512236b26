import type { FaultRule } from '../../src/devnet/index.js';
import type { Stretch } from './catalogue.js';
import type { Dice } from './Dice.js';
import type { BackendPlan, DiskPlan, Scenario, TimedEvent, WorldEvent } from './plan.js';
import { SOUND_LINK, type LinkQuality } from './SimulatedEndpoint.js';

export const MAX_MESSAGE_BYTES = 2 * 1024 * 1024;

/** Decides for each kind of trouble, which has a share of runs, whether this run has it. */
type Temper = (share: number) => boolean;

/** Each of these can be on or off in a run, so that some runs are wild and some have a single fault. */
export function temperOf(dice: Dice): Temper {
  const wildness = dice.random.next();
  return (share) => dice.chance(Math.min(1, share * 2 * wildness));
}

/** Off the chain, and said to be: at the stop height no child would show it. */
export function orphanedAtTheEnd({ stopHeight }: Stretch, quietAtMs: number): FaultRule {
  const heights = { fromHeight: stopHeight - 1, toHeight: stopHeight };
  return { method: 'GetBlockByHeight', fault: 'orphaned', ...heights, untilMs: quietAtMs, probability: 0.7 };
}

export function backendPlan(dice: Dice, temper: Temper, needsExecutionData: boolean): BackendPlan {
  return {
    lagHeights: temper(0.3) ? dice.whole(0, 10) : 0,
    sealedLag: dice.whole(0, 4),
    executionDataLag: temper(0.5) ? dice.whole(-4, 8) : 0,
    executionData: needsExecutionData || !temper(0.2),
    onlyDeprecatedExecutionData: temper(0.2),
    streams: !temper(0.25),
    fullCollections: !temper(0.25),
    collectionLagMs: temper(0.3) ? dice.whole(100, 5_000) : 0,
    ratePerSecond: temper(0.2) ? dice.whole(5, 60) : 0,
    // One is enough for execution data: all else can be polled.
    maxStreams: temper(0.15) ? dice.whole(1, 3) : 1000,
  };
}

function linkOf(dice: Dice, temper: Temper, quietAtMs: number): LinkQuality {
  return {
    usualMs: dice.magnitude(0.5, 300),
    slowShare: temper(0.6) ? dice.magnitude(0.01, 0.5) : 0,
    slowMs: Math.min(60_000, dice.magnitude(100, Math.max(1_000, quietAtMs))),
    lossShare: temper(0.5) ? dice.magnitude(0.005, 0.4) : 0,
    twiceShare: temper(0.3) ? dice.magnitude(0.01, 0.5) : 0,
    corruptShare: temper(0.3) ? dice.magnitude(0.01, 0.5) : 0,
  };
}

export function diskOf(dice: Dice, temper: Temper): DiskPlan {
  return {
    writeMs: dice.magnitude(0.5, 50),
    slowShare: temper(0.3) ? dice.magnitude(0.02, 0.5) : 0,
    slowMs: dice.magnitude(100, 20_000),
    writeFailureShare: temper(0.2) ? dice.magnitude(0.02, 0.2) : 0,
    readFailureShare: temper(0.1) ? dice.magnitude(0.01, 0.1) : 0,
    crashShare: temper(0.3) ? dice.magnitude(0.01, 0.1) : 0,
  };
}

const CODES = [
  ...(['UNAVAILABLE', 'INTERNAL', 'NOT_FOUND', 'DEADLINE_EXCEEDED', 'RESOURCE_EXHAUSTED'] as const),
  ...(['UNIMPLEMENTED', 'UNKNOWN', 'CANCELLED', 'ABORTED', 'FAILED_PRECONDITION', 'DATA_LOSS'] as const),
];

interface Lies {
  readonly mayLieOfBlocks: boolean;
  /** The heights of which false blocks, and false guarantees, may be given. */
  readonly lieHeights: { readonly fromHeight: number; readonly toHeight: number };
}

export function someLink(dice: Dice, temper: Temper, quietAtMs: number): LinkQuality {
  return temper(0.6) ? linkOf(dice, temper, quietAtMs) : soundLink(dice);
}

export const soundLink = (dice: Dice): LinkQuality => ({ ...SOUND_LINK, usualMs: dice.magnitude(0.5, 100) });

export function someBackends(dice: Dice, temper: Temper, needsExecutionData: boolean): BackendPlan[] {
  return Array.from({ length: temper(0.3) ? 2 : 1 }, () => backendPlan(dice, temper, needsExecutionData));
}

/** The first block is the anchor of all others, and the last has no child that is asked for: taken on trust. */
export function lieHeightsOf({ firstHeight, stopHeight }: Stretch): Lies['lieHeights'] {
  return { fromHeight: firstHeight + 1, toHeight: stopHeight - 1 };
}

/** Fault rules of the devnet, each within a stretch of time that ends before the quiet. */
export function faultsOf(dice: Dice, quietAtMs: number, { lieHeights, mayLieOfBlocks }: Lies): FaultRule[] {
  const collections = ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction'] as const;
  const executionData = 'SubscribeExecutionData*';
  const blocks = ['GetBlockByHeight', 'SubscribeBlocksFromStartHeight'] as const;
  const streams = [executionData, 'SubscribeBlocks*', 'SubscribeBlockDigests*', 'Subscribe*'] as const;
  const templates: readonly (() => FaultRule)[] = [
    () => ({ method: dice.pick(collections), fault: 'wrong_body' }),
    () => ({ method: dice.pick(collections), fault: 'other_body' }),
    () => ({ method: dice.pick([...collections, ...blocks, executionData]), fault: 'truncated' }),
    () => ({
      ...{ method: dice.pick([...collections, executionData]), fault: 'oversized' },
      ...{ bytes: MAX_MESSAGE_BYTES + 1000, times: 3 },
    }),
    ...(['wrong_body', 'other_body', 'swapped_chunks', 'missing_chunk', 'extra_chunk'] as const).map(
      (fault) => (): FaultRule => ({ method: executionData, fault }),
    ),
    () => ({ method: executionData, fault: 'execution_data_lag', blocks: dice.whole(-8, 20) }),
    () => ({ method: dice.pick(streams), fault: 'stall', on: dice.pick(['open', 'message']) }),
    () => ({ method: dice.pick(streams), fault: 'gap' }),
    () => ({ method: executionData, fault: 'gap' }),
    () => ({ method: dice.pick(streams), fault: 'repeat' }),
    () => ({ method: dice.pick(streams), fault: 'cut', how: dice.pick(['end', 'reset']) }),
    () => ({ method: dice.pick(['Get*', 'GetFull*', 'GetBlock*']), fault: 'cut' }),
    () => ({ method: dice.pick(['Get*', 'GetFull*', 'GetBlock*']), fault: 'stall' }),
    () => ({ method: '*', fault: 'latency', delayMs: dice.whole(1, 60_000) }),
    () => ({
      ...{ method: dice.pick(['*', 'Get*', 'Subscribe*', 'GetFullCollectionByID']), fault: 'error' },
      code: dice.pick(CODES),
    }),
    () => ({ method: 'GetLatest*', fault: 'head_backwards', blocks: dice.whole(1, 30) }),
    ...(mayLieOfBlocks
      ? [
          (): FaultRule => ({ method: dice.pick(blocks), fault: 'wrong_parent' }),
          (): FaultRule => ({ method: dice.pick(blocks), fault: 'other_body' }),
          // A stream does not tell the status of its blocks.
          (): FaultRule => ({ method: 'SubscribeBlocksFromStartHeight', fault: 'orphaned' }),
        ]
      : []),
    // The answer itself says that the block is off the chain: no child is needed to see that.
    () => ({ method: 'GetBlockByHeight', fault: 'orphaned' }),
    // Its right id and parent, but a guarantee that nobody gave.
    () => ({ method: dice.pick(blocks), fault: 'wrong_body' }),
  ];
  return Array.from({ length: dice.whole(1, 6) }, () => {
    const rule = dice.pick(templates)();
    const afterMs = dice.chance(0.4) ? 0 : dice.whole(0, quietAtMs);
    const isBlockLie =
      (blocks as readonly string[]).includes(rule.method) &&
      rule.fault !== 'truncated' &&
      !(rule.fault === 'orphaned' && rule.method === 'GetBlockByHeight');
    const isLag = rule.fault === 'execution_data_lag';
    return {
      ...rule,
      afterMs,
      untilMs: dice.whole(afterMs, quietAtMs),
      ...(isBlockLie ? lieHeights : {}),
      ...(isLag || dice.chance(0.2) ? {} : { probability: dice.magnitude(0.02, 1) }),
    };
  });
}

/** What the stream of a peer can suffer, each within a stretch of time that ends before the quiet. */
export function peerFaultsOf(dice: Dice, quietAtMs: number): FaultRule[] {
  const method = 'SubscribeIndexedBlocks';
  const templates: readonly (() => FaultRule)[] = [
    ...(
      ['wrong_body', 'other_body', 'swapped_chunks', 'missing_chunk', 'extra_chunk', 'truncated'] as const
    ).map((fault) => (): FaultRule => ({ method, fault })),
    () => ({ method, fault: 'oversized', bytes: MAX_MESSAGE_BYTES + 1000, times: 3 }),
    () => ({ method, fault: dice.pick(['gap', 'repeat']) }),
    () => ({ method, fault: 'stall', on: dice.pick(['open', 'message']) }),
    () => ({ method, fault: 'cut', how: dice.pick(['end', 'reset']) }),
    () => ({ method, fault: 'latency', delayMs: dice.whole(1, 60_000) }),
    () => ({
      ...{ method, fault: 'error' },
      code: dice.pick(['UNIMPLEMENTED', 'UNAUTHENTICATED', 'RESOURCE_EXHAUSTED', 'NOT_FOUND', 'UNAVAILABLE']),
    }),
  ];
  return Array.from({ length: dice.whole(1, 4) }, () => {
    const afterMs = dice.chance(0.4) ? 0 : dice.whole(0, quietAtMs);
    return {
      ...dice.pick(templates)(),
      ...{ afterMs, untilMs: dice.whole(afterMs, quietAtMs) },
      ...(dice.chance(0.2) ? {} : { probability: dice.magnitude(0.02, 1) }),
    };
  });
}

/** Runs through as often as chance has it, mostly never. */
function severalTimes(dice: Dice, temper: Temper): (share: number, max: number) => readonly undefined[] {
  return (share, max) => Array.from({ length: temper(share) ? dice.whole(1, max) : 0 });
}

export function interruptionsOf(
  dice: Dice,
  temper: Temper,
  { endpoint, quietAtMs }: { readonly endpoint: number; readonly quietAtMs: number },
): readonly TimedEvent[] {
  const events: TimedEvent[] = [];
  const some = severalTimes(dice, temper);
  for (const _ of some(0.3, 2)) {
    const downMs = dice.random.next() * quietAtMs;
    const how = dice.pick(['refusing', 'silent'] as const);
    events.push({ atMs: downMs, event: { kind: 'down', endpoint, how } });
    const upMs = downMs + dice.random.next() * (quietAtMs - downMs);
    const prunedHeights = dice.chance(0.4) ? dice.whole(0, 20) : 0;
    events.push({ atMs: upMs, event: { kind: 'up', endpoint, prunedHeights } });
  }
  for (const _ of some(0.3, 3))
    events.push({ atMs: dice.random.next() * quietAtMs, event: { kind: 'reset', endpoint } });
  return events;
}

export function eventsOf(
  dice: Dice,
  temper: Temper,
  { endpoints, quietAtMs, startHead }: Pick<Scenario, 'endpoints' | 'quietAtMs' | 'startHead'>,
  stretch: Stretch,
): readonly TimedEvent[] {
  const events: TimedEvent[] = [];
  const at = (event: WorldEvent, atMs = dice.random.next() * quietAtMs): void =>
    void events.push({ atMs, event });
  const some = severalTimes(dice, temper);

  // The head: bursts and stalls.
  let head = startHead;
  const times = Array.from({ length: dice.whole(1, 30) }, () => dice.random.next() * quietAtMs).sort(
    (a, b) => a - b,
  );
  for (const atMs of times) {
    head = Math.min(stretch.endHeight, head + Math.round(dice.magnitude(1, 20)));
    at({ kind: 'head', height: head }, atMs);
  }
  for (const [endpoint] of endpoints.entries()) {
    events.push(...interruptionsOf(dice, temper, { endpoint, quietAtMs }));
    for (const _ of some(0.3, 4)) at({ kind: 'lag', endpoint, heights: dice.whole(0, 30) });
    if (endpoint === 0) continue;
    for (const _ of some(0.15, 1)) at({ kind: 'other_chain', endpoint });
    for (const _ of some(0.15, 1))
      at({ kind: 'identity_lie', endpoint, about: dice.pick(['chain', 'spork']) });
  }
  for (const _ of some(0.2, 3)) at({ kind: 'wall_jump', ms: dice.whole(-7_200_000, 7_200_000) });
  for (const _ of some(0.35, 3)) at({ kind: 'crash', losesPower: dice.chance(0.5) });
  for (const _ of some(0.2, 2)) at({ kind: 'terminate' });
  return events.sort((left, right) => left.atMs - right.atMs);
}
