import { loadConfig, type DaemonConfig } from '../../src/config/index.js';
import { GROWING_STRETCHES, PLAIN_STRETCHES, SPORK_STRETCHES, type Stretch } from './catalogue.js';
import { Dice } from './Dice.js';
import { backendPlan, diskOf, eventsOf, faultsOf, interruptionsOf, lieHeightsOf } from './draws.js';
import { MAX_MESSAGE_BYTES, orphanedAtTheEnd, peerFaultsOf, someBackends, someLink } from './draws.js';
import { temperOf } from './draws.js';
import { withFinality } from './finality.js';
import { keepsItsWorld, knownBadSeeds } from './knownBadSeeds.js';
import { SOUND_BACKEND, SOUND_DISK } from './plan.js';
import type { EndpointPlan, FalseSpork, ReferenceKind, Scenario } from './plan.js';
import { withProofs } from './proofs.js';
import { SOUND_LINK } from './SimulatedEndpoint.js';
import { drawEarlierSporks, HISTORIC_CALLS_PER_SECOND, withEarlierSporks } from './sporks.js';

/** From the end of the last fault, the stop height is reached within this virtual time. */
const LIVENESS_MS = 900_000;

/** By when the stop height is reached. Where only the head moves unevenly, little more than the work takes: no wake-up is lost. */
export function livenessMs(scenario: Scenario, { firstHeight, served, sporks, stopHeight }: Stretch): number {
  if (!isCalm(scenario)) return LIVENESS_MS;
  const { config, disk, endpoints, sporkTable } = scenario;
  const ratePerSecond =
    config.access.ratePerSecond || (sporkTable.length > 0 ? HISTORIC_CALLS_PER_SECOND : 0);
  const roundTripMs = 3 * Math.max(...endpoints.map(({ link }) => link.usualMs));
  const perHeightMs = 4 * roundTripMs + 3 * disk.writeMs + (ratePerSecond > 0 ? 5_000 / ratePerSecond : 0);
  const weighingMs = served === 'named' ? (sporks.length - 1) * WEIGHING_MS : 0;
  return weighingMs + sporks.length * CALM_LIVENESS_MS + (stopHeight - firstHeight + 1) * perHeightMs;
}

/** The part of it that the amount of work does not change, for each spork: its nodes have to be found. */
const CALM_LIVENESS_MS = 5_000;

/** For each spork that only a minority tells of: until the chains of the others were seen to stand still. */
const WEIGHING_MS = 45_000;

function isCalm({ crashSteps, disk, endpoints, events, falseSpork, provenFrom }: Scenario): boolean {
  return (
    falseSpork === undefined &&
    provenFrom === 1 &&
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

/** What a daemon on the simulated network is to do where nobody says otherwise. */
const { config: usual } = loadConfig(
  { file: undefined, environment: {}, flags: new Map([['network', ['devnet']]]) },
  { isTerminal: false },
);

/** What a seed's course depends on stands here, whatever the defaults come to be. */
function configOf(
  { firstHeight: startHeight, stopHeight }: Stretch,
  endpoints: readonly string[],
  changes: Partial<Omit<DaemonConfig, 'requester' | 'edi' | 'access'>> & {
    readonly edi?: Partial<DaemonConfig['edi']>;
    readonly access?: Partial<DaemonConfig['access']>;
    readonly requester?: Partial<DaemonConfig['requester']>;
  } = {},
): DaemonConfig {
  const backoff = { backoffMinMs: 250, backoffMaxMs: 10_000, unresolvableAfterMs: 600_000 };
  return {
    ...usual,
    ...{ accessNodes: endpoints, dataDir: '/simulated', startHeight, stopHeight },
    ...{ window: 16, maxProcessing: 16, workersPerHeight: 8, maxInFlightBytes: 128 * MIB },
    proof: { mode: 'auto', finality: 'reported', checkpoint: undefined },
    ...changes,
    edi: { enabled: true, nodes: endpoints, ...changes.edi },
    access: { ...usual.access, ratePerSecond: 0, maxMessageBytes: MAX_MESSAGE_BYTES, ...changes.access },
    requester: { concurrency: 32, timeoutMs: 10_000, ...backoff, ...changes.requester },
    backfill: { plan: undefined, parallelRanges: 4, window: 16 },
    scrub: { bytesPerSecond: 0 },
    disk: { minFreeBytes: 0 },
    api: { ...usual.api, port: 0, grpcPort: 'off', corsOrigins: [] },
    metrics: { ...usual.metrics, port: 0 },
  };
}

/** A run in which nothing goes wrong: what all others must end like. */
export function faultFree(
  index: number,
  stretch: Stretch,
  { hasAccounts = false, proofMode = 'auto' }: Pick<ReferenceKind, 'hasAccounts' | 'proofMode'> = {},
): Scenario {
  const name = 'node0.test:9000';
  const live = stretch.sporks.length - 1;
  const sound = { backends: [SOUND_BACKEND], link: SOUND_LINK, faults: [] };
  const earlier = stretch.sporks.slice(0, live).map((_, spork) => ({ ...sound, spork }));
  const scenario: Scenario = {
    seed: 0,
    stretch: index,
    config: configOf(stretch, [name], {
      proof: { mode: proofMode, finality: 'reported', checkpoint: undefined },
    }),
    endpoints: [{ ...sound, name, spork: live }],
    sporkTable: [],
    disk: SOUND_DISK,
    startHead: stretch.endHeight,
    events: [],
    crashSteps: [],
    ...{ quietAtMs: 0, endsWithoutExecutionData: false, falseSpork: undefined },
    ...{ accountsFrom: hasAccounts ? 1 : Infinity, provenFrom: 1, history: undefined },
  };
  return withFinality(withEarlierSporks(scenario, stretch, { endpoints: earlier, events: [] }), stretch);
}

const SPORK_SHARE = 1 / 6;
/** How many of the others have a node that tells of a spork which is not. */
const FALSE_SPORK_SHARE = 1 / 20;

/** Known seeds keep the world in which they failed, whatever others have come to decide since. */
export function stretchOf(seed: number): number {
  const known = knownBadSeeds.find((each) => each.seed === seed);
  const dice = new Dice(seed, 'sporks of the stretch');
  const isDrawn = dice.chance(SPORK_SHARE);
  if (known?.crossesSporks ?? isDrawn) return PLAIN_STRETCHES + dice.whole(0, SPORK_STRETCHES - 1);
  const grows = new Dice(seed, 'false spork').chance(FALSE_SPORK_SHARE);
  if (grows && !keepsItsWorld(seed)) {
    const from = PLAIN_STRETCHES + SPORK_STRETCHES;
    return from + new Dice(seed, 'growing stretch').whole(0, GROWING_STRETCHES - 1);
  }
  return new Dice(seed, 'stretch').whole(0, PLAIN_STRETCHES - 1);
}

/** On a stretch whose chain goes on, where there are others than the liar. */
function falseSporkOf(
  seed: number,
  { firstHeight, stopHeight }: Stretch,
  endpoints: readonly EndpointPlan[],
): FalseSpork | undefined {
  if (stretchOf(seed) < PLAIN_STRETCHES + SPORK_STRETCHES || endpoints.length === 1) return undefined;
  const dice = new Dice(seed, 'claim');
  return {
    endpoint: endpoints.length - 1,
    rootHeight: dice.whole(firstHeight + 1, stopHeight + 4),
    isNamed: !keepsItsWorld(seed) && new Dice(seed, 'claimed id').chance(0.5),
    withholds: dice.chance(0.7),
    blockEveryMs: dice.whole(2_000, 4_000),
  };
}

const ACCOUNTS_SHARE = 1 / 4;

/** Drawn apart, so that it changes nothing else; known seeds keep their world. */
function accountsFromOf(seed: number): number {
  const dice = new Dice(seed, 'account index');
  return !keepsItsWorld(seed) && dice.chance(ACCOUNTS_SHARE) ? dice.whole(1, 3) : Infinity;
}

/** How many of the seeds whose stretch allows it begin at a height of its middle, and fill in what lies below. */
const HISTORY_SHARE = 0.3;
/** More of those that cross from spork to spork: they are few. */
const SPORK_HISTORY_SHARE = 0.6;
/** A shorter stretch has no room for several ranges. */
const HISTORY_MIN_HEIGHTS = 14;
/** Every range needs one where execution data is the only source. */
const FEW_STREAMS = 16;

/** Drawn apart from everything else, so that a seed meets the same faults with history as without. */
function withHistory(scenario: Scenario, stretch: Stretch): Scenario {
  const { seed } = scenario;
  const dice = new Dice(seed, 'history');
  const { firstHeight, stopHeight } = stretch;
  const heights = stopHeight - firstHeight + 1;
  if (keepsItsWorld(seed) || scenario.falseSpork !== undefined) return scenario;
  // The live range must begin below what nobody may have signed.
  if (stretch.signed !== undefined) return scenario;
  // Where a node grants one stream, the live range has it.
  const hasFewStreams = scenario.endpoints.some(({ backends }) =>
    backends.some(({ maxStreams }) => maxStreams < FEW_STREAMS),
  );
  if (scenario.config.ediOnly && hasFewStreams) return scenario;
  // The first block of a store anchors all others, and is taken on trust: also as a bad link changed it.
  if (scenario.endpoints.some(({ link }) => link.corruptShare > 0)) return scenario;
  const share = stretch.sporks.length > 1 ? SPORK_HISTORY_SHARE : HISTORY_SHARE;
  if (heights < HISTORY_MIN_HEIGHTS || !dice.chance(share)) return scenario;
  // Not at the tip: there the first block might be one that is not to stay.
  const below = firstHeight + dice.whole(3, heights - 6);
  const backfill = {
    plan: String(firstHeight),
    parallelRanges: dice.whole(1, 4),
    window: dice.pick([3, 2, 4, 16]),
  };
  // The same goes for lies.
  const endpoints = scenario.endpoints.map((endpoint) => ({
    ...endpoint,
    faults: endpoint.faults.flatMap((rule) => {
      const { fromHeight, toHeight = Infinity } = rule;
      if (fromHeight === undefined || fromHeight > below || toHeight < below) return [rule];
      const beside = [
        { ...rule, toHeight: below - 1 },
        { ...rule, fromHeight: below + 1, toHeight },
      ];
      return beside.filter((part) => (part.fromHeight ?? 0) <= part.toHeight);
    }),
  }));
  return {
    ...scenario,
    endpoints,
    config: { ...scenario.config, startHeight: below, backfill },
    history: { below, rangeHeights: dice.whole(1, 9) },
  };
}

const PEER_SHARE = 0.3;

/** Another indexer, which gives, withholds, and lies as it likes. Drawn apart from everything else, as history is. */
function withPeer(scenario: Scenario, stretch: Stretch): Scenario {
  const { config, endpoints, quietAtMs, seed } = scenario;
  const dice = new Dice(seed, 'peer');
  if (!dice.chance(PEER_SHARE) || keepsItsWorld(seed)) return scenario;
  const temper = temperOf(dice);
  const endpoint = endpoints.length;
  const peer: EndpointPlan = {
    name: 'peer.test:7181',
    spork: stretch.sporks.length - 1,
    backends: [backendPlan(dice, temper, false)],
    link: someLink(dice, temper, quietAtMs),
    faults: temper(0.7) ? peerFaultsOf(dice, quietAtMs) : [],
  };
  const random = (): number => dice.random.next() * quietAtMs;
  const events = [...interruptionsOf(dice, temper, { endpoint, quietAtMs })];
  if (temper(0.3))
    events.push({ atMs: random(), event: { kind: 'lag', endpoint, heights: dice.whole(0, 30) } });
  if (temper(0.15)) events.push({ atMs: random(), event: { kind: 'other_chain', endpoint } });
  return {
    ...scenario,
    config: { ...config, peers: [peer.name] },
    endpoints: [...endpoints, peer],
    events: [...scenario.events, ...events].sort((left, right) => left.atMs - right.atMs),
  };
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
  const live = stretch.sporks.length - 1;
  const startHead = Math.max(
    stretch.sporks[live]!.chain.generator.rootHeight,
    dice.chance(0.5) ? stretch.endHeight : firstHead,
  );
  const mayLieOfBlocks = window > 1 && startHead >= stretch.stopHeight + 4;
  const endpoints = names.map((name, index): EndpointPlan => {
    const backends = someBackends(dice, temper, ediOnly && index === 0);
    const link = someLink(dice, temper, quietAtMs);
    const lies = { lieHeights: lieHeightsOf(stretch), mayLieOfBlocks };
    const faults = temper(0.7) ? faultsOf(dice, quietAtMs, lies) : [];
    const isPolled = backends.every(({ streams }) => !streams);
    const atTheEnd = isPolled && dice.chance(0.5) ? [orphanedAtTheEnd(stretch, quietAtMs)] : [];
    return { name, spork: live, backends, link, faults: [...faults, ...atTheEnd] };
  });
  const scenario: Scenario = {
    seed,
    stretch: stretchOf(seed),
    config,
    endpoints,
    sporkTable: [],
    disk: diskOf(dice, temper),
    startHead,
    events: eventsOf(dice, temper, { endpoints, quietAtMs, startHead }, stretch),
    crashSteps: temper(0.35)
      ? Array.from({ length: dice.whole(1, 4) }, () => Math.round(dice.magnitude(1, 4_000)))
      : [],
    quietAtMs,
    endsWithoutExecutionData: !ediOnly && dice.chance(0.3),
    falseSpork: falseSporkOf(seed, stretch, endpoints),
    accountsFrom: accountsFromOf(seed),
    provenFrom: 1,
    history: undefined,
  };
  const withSporks = withEarlierSporks(scenario, stretch, drawEarlierSporks(scenario, stretch));
  return withFinality(withProofs(withPeer(withHistory(withSporks, stretch), stretch), stretch), stretch);
}
