import type { DaemonConfig } from '../../src/config/index.js';
import type { FaultRule } from '../../src/devnet/index.js';
import type { Stretch } from './catalogue.js';
import { STRETCHES } from './catalogue.js';
import { Dice } from './Dice.js';
import type { LinkQuality } from './SimulatedEndpoint.js';
import { SOUND_LINK } from './SimulatedEndpoint.js';

/** From the end of the last fault, the stop height is reached within this virtual time. */
const LIVENESS_MS = 900_000;

/** One node behind an endpoint, and how far it is behind the network. */
export interface BackendPlan {
  readonly lagHeights: number;
  readonly sealedLag: number;
  readonly executionDataLag: number;
  readonly executionData: boolean;
  readonly onlyDeprecatedExecutionData: boolean;
  readonly streams: boolean;
  readonly fullCollections: boolean;
  readonly collectionLagMs: number;
  readonly ratePerSecond: number;
  readonly maxStreams: number;
}

export interface EndpointPlan {
  readonly name: string;
  readonly backends: readonly BackendPlan[];
  readonly link: LinkQuality;
  readonly faults: readonly FaultRule[];
}

/** Something that happens to the world at a moment. */
export type WorldEvent =
  | { readonly kind: 'down'; readonly endpoint: number; readonly how: 'refusing' | 'silent' }
  | { readonly kind: 'up'; readonly endpoint: number; readonly prunedHeights: number }
  | { readonly kind: 'reset'; readonly endpoint: number }
  | { readonly kind: 'other_chain'; readonly endpoint: number }
  | { readonly kind: 'identity_lie'; readonly endpoint: number; readonly about: 'chain' | 'spork' }
  | { readonly kind: 'head'; readonly height: number }
  | { readonly kind: 'lag'; readonly endpoint: number; readonly heights: number }
  | { readonly kind: 'wall_jump'; readonly ms: number }
  | { readonly kind: 'crash'; readonly losesPower: boolean }
  | { readonly kind: 'terminate' };

export interface DiskPlan {
  readonly writeMs: number;
  readonly slowShare: number;
  readonly slowMs: number;
  readonly writeFailureShare: number;
  readonly readFailureShare: number;
  /** Share of the stages of a write at which the process dies. */
  readonly crashShare: number;
}

/** Everything that a seed decides. */
export interface Scenario {
  readonly seed: number;
  readonly stretch: number;
  readonly config: DaemonConfig;
  readonly endpoints: readonly EndpointPlan[];
  readonly disk: DiskPlan;
  readonly startHead: number;
  /** In order of time. */
  readonly events: readonly { readonly atMs: number; readonly event: WorldEvent }[];
  /** The process dies after so many steps of the world, counted from its start; once each. */
  readonly crashSteps: readonly number[];
  /** From here on nothing goes wrong any more. */
  readonly quietAtMs: number;
  /** From then on no node offers execution data: what was won by it so far must not hold up the requests. */
  readonly endsWithoutExecutionData: boolean;
}

/**
 * Within which virtual time of the last event the stop height is reached. Where nothing ever goes wrong but that the head
 * moves unevenly, that is what the work takes and little more: no wake-up may get lost.
 */
export function livenessMs(scenario: Scenario, { firstHeight, stopHeight }: Stretch): number {
  if (!isCalm(scenario)) return LIVENESS_MS;
  const { config, disk, endpoints } = scenario;
  const { ratePerSecond } = config.access;
  const roundTripMs = 3 * Math.max(...endpoints.map(({ link }) => link.usualMs));
  const perHeightMs = 4 * roundTripMs + 3 * disk.writeMs + (ratePerSecond > 0 ? 5_000 / ratePerSecond : 0);
  return CALM_LIVENESS_MS + (stopHeight - firstHeight + 1) * perHeightMs;
}

/** The part of it that the amount of work does not change. */
const CALM_LIVENESS_MS = 5_000;

/** True when nothing goes wrong. */
function isCalm({ crashSteps, disk, endpoints, events }: Scenario): boolean {
  return (
    crashSteps.length === 0 &&
    disk.slowShare + disk.writeFailureShare + disk.readFailureShare + disk.crashShare === 0 &&
    events.every(({ event }) => event.kind === 'head' || event.kind === 'wall_jump') &&
    endpoints.every(
      ({ backends, faults, link }) =>
        faults.length === 0 &&
        link.slowShare + link.lossShare + link.corruptShare === 0 &&
        backends.every(({ maxStreams, ratePerSecond }) => maxStreams > 10 && ratePerSecond === 0),
    )
  );
}

const MIB = 1024 * 1024;
const MAX_MESSAGE_BYTES = 2 * MIB;

const SOUND_DISK: DiskPlan = {
  writeMs: 2,
  slowShare: 0,
  slowMs: 0,
  writeFailureShare: 0,
  readFailureShare: 0,
  crashShare: 0,
};

const SOUND_BACKEND: BackendPlan = {
  lagHeights: 0,
  sealedLag: 2,
  executionDataLag: 0,
  executionData: true,
  onlyDeprecatedExecutionData: false,
  streams: true,
  fullCollections: true,
  collectionLagMs: 0,
  ratePerSecond: 0,
  maxStreams: 1000,
};

function configOf(
  stretch: Stretch,
  endpoints: readonly string[],
  changes: Partial<Omit<DaemonConfig, 'requester' | 'edi' | 'access'>> & {
    readonly edi?: Partial<DaemonConfig['edi']>;
    readonly access?: Partial<DaemonConfig['access']>;
    readonly requester?: Partial<DaemonConfig['requester']>;
  } = {},
): DaemonConfig {
  return {
    network: 'devnet',
    chainId: 'flow-localnet',
    accessNodes: endpoints,
    dataDir: '/simulated',
    startHeight: stretch.firstHeight,
    stopHeight: stretch.stopHeight,
    window: 16,
    maxProcessing: 16,
    workersPerHeight: 8,
    maxInFlightBytes: 128 * MIB,
    ediOnly: false,
    ...changes,
    edi: { enabled: true, nodes: endpoints, ...changes.edi },
    access: { ratePerSecond: 0, maxMessageBytes: MAX_MESSAGE_BYTES, ...changes.access },
    requester: {
      concurrency: 32,
      timeoutMs: 10_000,
      backoffMinMs: 250,
      backoffMaxMs: 10_000,
      unresolvableAfterMs: 600_000,
      ...changes.requester,
    },
    api: { host: '127.0.0.1', port: 0, ratePerSecondPerAddress: 0 },
    metrics: { host: '127.0.0.1', port: 0 },
    ready: { maxLag: 100 },
    log: { level: 'info', format: 'json' },
  };
}

/** A run in which nothing goes wrong: what all others must end like. */
export function faultFree(index: number, stretch: Stretch): Scenario {
  const name = 'node0.test:9000';
  return {
    seed: 0,
    stretch: index,
    config: configOf(stretch, [name]),
    endpoints: [{ name, backends: [SOUND_BACKEND], link: SOUND_LINK, faults: [] }],
    disk: SOUND_DISK,
    startHead: stretch.endHeight,
    events: [],
    crashSteps: [],
    quietAtMs: 0,
    endsWithoutExecutionData: false,
  };
}

/** What a seed decides, on the stretch that it names. */
export function stretchOf(seed: number): number {
  return new Dice(seed, 'stretch').whole(0, STRETCHES - 1);
}

/** Each of these can be on or off in a run, so that some runs are wild and some have a single fault. */
function temperOf(dice: Dice): (share: number) => boolean {
  const wildness = dice.random.next();
  return (share) => dice.chance(Math.min(1, share * 2 * wildness));
}

export function scenarioOf(seed: number, stretch: Stretch): Scenario {
  const dice = new Dice(seed, 'scenario');
  const temper = temperOf(dice);
  const quietAtMs = Math.round(dice.magnitude(1_000, temper(0.2) ? 400_000 : 40_000));
  const endpointCount = dice.whole(1, 4);
  const names = Array.from({ length: endpointCount }, (_, index) => `node${index}.test:9000`);
  const window = dice.pick([1, 2, 3, 4, 8, 16, 32, 64]);
  const ediOnly = dice.chance(0.12);
  const ediEnabled = ediOnly || dice.chance(0.85);
  const ediNodes = names.filter((_, index) => index === 0 || dice.chance(0.7));
  const config = configOf(stretch, names, {
    window,
    maxProcessing: dice.pick([1, 2, 4, 16, 64, window]),
    workersPerHeight: dice.pick([1, 2, 8]),
    maxInFlightBytes: Math.round(dice.chance(0.4) ? dice.magnitude(1, 20_000) : 128 * MIB),
    ediOnly,
    edi: { enabled: ediEnabled, nodes: ediNodes },
    access: { ratePerSecond: dice.chance(0.15) ? dice.whole(10, 100) : 0 },
    requester: {
      concurrency: dice.pick([1, 2, 4, 8, 32]),
      timeoutMs: dice.pick([500, 2_000, 10_000]),
      backoffMinMs: dice.pick([50, 250, 1_000]),
      backoffMaxMs: dice.pick([2_000, 10_000, 30_000]),
    },
  });
  const firstHead = stretch.firstHeight + dice.whole(-3, stretch.stopHeight - stretch.firstHeight + 4);
  // Blocks off the chain are told from those on it by their children: only well below the head, and in a window of two.
  const startHead = Math.max(
    stretch.chain.generator.rootHeight,
    dice.chance(0.5) ? stretch.endHeight : firstHead,
  );
  const mayLieOfBlocks = window > 1 && startHead >= stretch.stopHeight + 4;
  const endpoints = names.map((name, index): EndpointPlan => {
    const backends = Array.from({ length: temper(0.3) ? 2 : 1 }, () =>
      backendPlan(dice, temper, ediOnly && index === 0),
    );
    return {
      name,
      backends,
      link: temper(0.6)
        ? linkOf(dice, temper, quietAtMs)
        : { ...SOUND_LINK, usualMs: dice.magnitude(0.5, 100) },
      faults: [
        ...(temper(0.7) ? faultsOf(dice, stretch, quietAtMs, { mayLieOfBlocks }) : []),
        ...(backends.every(({ streams }) => !streams) && dice.chance(0.5)
          ? [orphanedAtTheEnd(stretch, quietAtMs)]
          : []),
      ],
    };
  });
  return {
    seed,
    stretch: stretchOf(seed),
    config,
    endpoints,
    disk: diskOf(dice, temper),
    startHead,
    events: eventsOf(dice, temper, { endpoints, quietAtMs, startHead, stretch }),
    crashSteps: temper(0.35)
      ? Array.from({ length: dice.whole(1, 4) }, () => Math.round(dice.magnitude(1, 4_000)))
      : [],
    quietAtMs,
    endsWithoutExecutionData: !ediOnly && dice.chance(0.3),
  };
}

/** Off the chain, and said to be: at the stop height no child would show it. */
function orphanedAtTheEnd({ stopHeight }: Stretch, quietAtMs: number): FaultRule {
  const heights = { fromHeight: stopHeight - 1, toHeight: stopHeight };
  return { method: 'GetBlockByHeight', fault: 'orphaned', ...heights, untilMs: quietAtMs, probability: 0.7 };
}

function backendPlan(
  dice: Dice,
  temper: (share: number) => boolean,
  needsExecutionData: boolean,
): BackendPlan {
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

function linkOf(dice: Dice, temper: (share: number) => boolean, quietAtMs: number): LinkQuality {
  return {
    usualMs: dice.magnitude(0.5, 300),
    slowShare: temper(0.6) ? dice.magnitude(0.01, 0.5) : 0,
    slowMs: Math.min(60_000, dice.magnitude(100, Math.max(1_000, quietAtMs))),
    lossShare: temper(0.5) ? dice.magnitude(0.005, 0.4) : 0,
    twiceShare: temper(0.3) ? dice.magnitude(0.01, 0.5) : 0,
    corruptShare: temper(0.3) ? dice.magnitude(0.01, 0.5) : 0,
  };
}

function diskOf(dice: Dice, temper: (share: number) => boolean): DiskPlan {
  return {
    writeMs: dice.magnitude(0.5, 50),
    slowShare: temper(0.3) ? dice.magnitude(0.02, 0.5) : 0,
    slowMs: dice.magnitude(100, 20_000),
    writeFailureShare: temper(0.2) ? dice.magnitude(0.02, 0.2) : 0,
    readFailureShare: temper(0.1) ? dice.magnitude(0.01, 0.1) : 0,
    crashShare: temper(0.3) ? dice.magnitude(0.01, 0.1) : 0,
  };
}

/** Fault rules of the devnet, each within a stretch of time that ends before the quiet. */
function faultsOf(
  dice: Dice,
  stretch: Stretch,
  quietAtMs: number,
  { mayLieOfBlocks }: { readonly mayLieOfBlocks: boolean },
): FaultRule[] {
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
    () => ({ method: executionData, fault: 'wrong_body' }),
    () => ({ method: executionData, fault: 'other_body' }),
    () => ({ method: executionData, fault: 'swapped_chunks' }),
    () => ({ method: executionData, fault: 'missing_chunk' }),
    () => ({ method: executionData, fault: 'extra_chunk' }),
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
      code: dice.pick([
        ...(['UNAVAILABLE', 'INTERNAL', 'NOT_FOUND', 'DEADLINE_EXCEEDED', 'RESOURCE_EXHAUSTED'] as const),
        ...([
          'UNIMPLEMENTED',
          'UNKNOWN',
          'CANCELLED',
          'ABORTED',
          'FAILED_PRECONDITION',
          'DATA_LOSS',
        ] as const),
      ]),
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
      // The first block is the anchor of all others, and the last has no child that is asked for: taken on trust.
      ...(isBlockLie ? { fromHeight: stretch.firstHeight + 1, toHeight: stretch.stopHeight - 1 } : {}),
      ...(isLag || dice.chance(0.2) ? {} : { probability: dice.magnitude(0.02, 1) }),
    };
  });
}

function eventsOf(
  dice: Dice,
  temper: (share: number) => boolean,
  {
    endpoints,
    quietAtMs,
    startHead,
    stretch,
  }: {
    readonly endpoints: readonly EndpointPlan[];
    readonly quietAtMs: number;
    readonly startHead: number;
    readonly stretch: Stretch;
  },
): Scenario['events'] {
  const events: { atMs: number; event: WorldEvent }[] = [];
  const at = (event: WorldEvent, atMs = dice.random.next() * quietAtMs): void =>
    void events.push({ atMs, event });
  const some = (share: number, max: number): readonly undefined[] =>
    Array.from({ length: temper(share) ? dice.whole(1, max) : 0 });

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
    for (const _ of some(0.3, 2)) {
      const downMs = dice.random.next() * quietAtMs;
      at({ kind: 'down', endpoint, how: dice.pick(['refusing', 'silent']) }, downMs);
      const upMs = downMs + dice.random.next() * (quietAtMs - downMs);
      at({ kind: 'up', endpoint, prunedHeights: dice.chance(0.4) ? dice.whole(0, 20) : 0 }, upMs);
    }
    for (const _ of some(0.3, 3)) at({ kind: 'reset', endpoint });
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
