import { parseSporkTable } from '../../src/access/pool/sporks/sporkTable.js';
import type { FaultRule } from '../../src/devnet/index.js';
import type { Stretch, StretchSpork } from './catalogue.js';
import { Dice } from './Dice.js';
import { faultsOf, interruptionsOf, someBackends, someLink, temperOf } from './draws.js';
import type { EndpointPlan, Scenario, TimedEvent } from './plan.js';

/** The daemon holds itself to so many calls per second, node and method, where it asks historic nodes. */
export const HISTORIC_CALLS_PER_SECOND = 80;

/**
 * How far below the end of a spork nobody lies of blocks where the spork table does not confirm the last one: to a process that
 * has heard of no other nodes yet, the end of a spork is the tip. Where it does, there are lies of these heights in particular.
 */
const LAST_HEIGHTS = 4;

/** The endpoints whose nodes serve the heights of sporks that have ended, and what befalls them. */
interface EarlierSporks {
  readonly endpoints: readonly Omit<EndpointPlan, 'name'>[];
  /** By the place of their endpoint in this list. */
  readonly events: readonly TimedEvent[];
}

/** Drawn from a generator of its own: worlds of one spork stay what they are. */
export function drawEarlierSporks({ config, quietAtMs, seed }: Scenario, stretch: Stretch): EarlierSporks {
  const { firstHeight, sporks } = stretch;
  const dice = new Dice(seed, 'earlier sporks');
  // Of its own again: what else befalls these nodes is what it was before anybody lied of the ends.
  const endDice = new Dice(seed, 'lies of the ends of sporks');
  const temper = temperOf(dice);
  const endpoints: Omit<EndpointPlan, 'name'>[] = [];
  const events: TimedEvent[] = [];
  for (const [spork, { chain, lastHeight }] of sporks.slice(0, -1).entries()) {
    const lieHeights = {
      fromHeight: Math.max(firstHeight + 1, chain.generator.rootHeight),
      toHeight: lastHeight - LAST_HEIGHTS,
    };
    const count = dice.whole(1, 2);
    for (let nth = 0; nth < count; nth += 1) {
      const backends = someBackends(dice, temper, config.ediOnly && nth === 0);
      const link = someLink(dice, temper, quietAtMs);
      const lies = { mayLieOfBlocks: config.window > 1, lieHeights };
      const faults = temper(0.7) ? faultsOf(dice, quietAtMs, lies) : [];
      events.push(...interruptionsOf(dice, temper, { endpoint: endpoints.length, quietAtMs }));
      const ofTheEnd =
        isConfirmed(stretch, spork) && endDice.chance(END_LIE_SHARE)
          ? [lieOfTheEnd(endDice, stretch, { spork, window: config.window, quietAtMs })]
          : [];
      endpoints.push({ spork, backends, link, faults: [...faults, ...ofTheEnd].filter(hasHeights) });
    }
  }
  return { endpoints, events };
}

/** Share of the nodes of earlier sporks that lie of the end of theirs, where that can be known. */
const END_LIE_SHARE = 0.5;

/** The spork table tells which block is the last one of this spork. */
function isConfirmed({ served, sporks }: Stretch, spork: number): boolean {
  const next = sporks[spork + 1]?.chain.generator;
  const last = sporks[spork];
  return (
    served === 'table' &&
    next !== undefined &&
    last !== undefined &&
    next.parentId(next.rootHeight) === last.chain.block(last.lastHeight).id
  );
}

function lieOfTheEnd(
  dice: Dice,
  { firstHeight, sporks }: Stretch,
  { quietAtMs, spork, window }: Record<'quietAtMs' | 'spork' | 'window', number>,
): FaultRule {
  const { chain, lastHeight } = sporks[spork]!;
  // In a window of one a block waits for no child; but the last one is known without.
  const heights = window === 1 ? 1 : dice.whole(1, LAST_HEIGHTS);
  const lowest = Math.max(firstHeight + 1, chain.generator.rootHeight);
  const afterMs = dice.chance(0.6) ? 0 : dice.whole(0, quietAtMs);
  return {
    method: dice.pick(['GetBlockByHeight', 'SubscribeBlocksFromStartHeight', '*']),
    fault: dice.pick(['orphaned', 'orphaned', 'wrong_parent', 'other_body'] as const),
    ...{ fromHeight: Math.max(lowest, lastHeight - heights + 1), toHeight: lastHeight },
    ...{ afterMs, untilMs: dice.whole(afterMs, quietAtMs), probability: dice.magnitude(0.2, 1) },
  };
}

/** The scenario with the nodes of the sporks that have ended behind those of the live one. */
export function withEarlierSporks(scenario: Scenario, stretch: Stretch, earlier: EarlierSporks): Scenario {
  if (earlier.endpoints.length === 0) return scenario;
  const { config } = scenario;
  const historic = earlier.endpoints.map((endpoint, nth): EndpointPlan => {
    return { ...endpoint, name: `historic${endpoint.spork}-${nth}.test:9000` };
  });
  const behind = earlier.events.map(({ atMs, event }): TimedEvent => {
    if (!('endpoint' in event)) return { atMs, event };
    return { atMs, event: { ...event, endpoint: event.endpoint + scenario.endpoints.length } };
  });
  const names = historic.map(({ name }) => name);
  const isNamed = stretch.served === 'named';
  return {
    ...scenario,
    endpoints: [...scenario.endpoints, ...historic],
    events: [...scenario.events, ...behind].sort((left, right) => left.atMs - right.atMs),
    sporkTable: isNamed ? [] : tableOf(stretch, [...scenario.endpoints, ...historic]),
    config: {
      ...config,
      ...(isNamed && {
        accessNodes: [...config.accessNodes, ...names],
        edi: { ...config.edi, nodes: [...config.edi.nodes, ...names] },
      }),
    },
  };
}

function tableOf(stretch: Stretch, endpoints: readonly EndpointPlan[]) {
  const { sporks } = stretch;
  const entries = sporks.map(({ chain: { generator } }: StretchSpork, spork) => ({
    name: `spork${spork}`,
    rootHeight: generator.rootHeight,
    endHeightExclusive: sporks[spork + 1]?.chain.generator.rootHeight ?? null,
    rootParentId: generator.parentId(generator.rootHeight),
    rootParentIsBelow: spork === 0 || isConfirmed(stretch, spork - 1),
    accessNodes: endpoints.filter((endpoint) => endpoint.spork === spork).map(({ name }) => name),
  }));
  return parseSporkTable({ devnet: entries }, 'devnet', 'of the simulation');
}

/** False for a rule about heights of which there are none. */
const hasHeights = ({ fromHeight = 0, toHeight = Infinity }: FaultRule): boolean => fromHeight <= toHeight;
