import { parseSporkTable } from '../../src/access/index.js';
import type { FaultRule } from '../../src/devnet/index.js';
import type { Stretch, StretchSpork } from './catalogue.js';
import { Dice } from './Dice.js';
import { backendPlan, faultsOf, interruptionsOf, linkOf, temperOf } from './draws.js';
import type { EndpointPlan, Scenario, TimedEvent } from './plan.js';
import { SOUND_LINK } from './SimulatedEndpoint.js';

/** The daemon holds itself to so many calls per second, node and method, where it asks historic nodes. */
export const HISTORIC_CALLS_PER_SECOND = 80;

/**
 * How far below the end of a spork nobody lies of blocks: where the spork table vouches for the next root, that root does not
 * bear out the block below it; and to a process that has heard of no other nodes yet, the end of a spork is the tip.
 */
const TRUSTED_AT_THE_END_HEIGHTS = 4;

/** The endpoints whose nodes serve the heights of sporks that have ended, and what befalls them. */
interface EarlierSporks {
  readonly endpoints: readonly Omit<EndpointPlan, 'name'>[];
  /** By the place of their endpoint in this list. */
  readonly events: readonly TimedEvent[];
}

/** Drawn from a generator of its own: worlds of one spork stay what they are. */
export function drawEarlierSporks(
  { config, quietAtMs, seed }: Scenario,
  { firstHeight, sporks }: Stretch,
): EarlierSporks {
  const dice = new Dice(seed, 'earlier sporks');
  const temper = temperOf(dice);
  const endpoints: Omit<EndpointPlan, 'name'>[] = [];
  const events: TimedEvent[] = [];
  for (const [spork, { chain, lastHeight }] of sporks.slice(0, -1).entries()) {
    const lieHeights = {
      fromHeight: Math.max(firstHeight + 1, chain.generator.rootHeight),
      toHeight: lastHeight - TRUSTED_AT_THE_END_HEIGHTS,
    };
    const count = dice.whole(1, 2);
    for (let nth = 0; nth < count; nth += 1) {
      const backends = Array.from({ length: temper(0.3) ? 2 : 1 }, () =>
        backendPlan(dice, temper, config.ediOnly && nth === 0),
      );
      const link = temper(0.6)
        ? linkOf(dice, temper, quietAtMs)
        : { ...SOUND_LINK, usualMs: dice.magnitude(0.5, 100) };
      const faults = temper(0.7)
        ? faultsOf(dice, quietAtMs, { mayLieOfBlocks: config.window > 1, lieHeights })
        : [];
      events.push(...interruptionsOf(dice, temper, { endpoint: endpoints.length, quietAtMs }));
      endpoints.push({ spork, backends, link, faults: faults.filter(hasHeights) });
    }
  }
  return { endpoints, events };
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
    config: isNamed
      ? {
          ...config,
          accessNodes: [...config.accessNodes, ...names],
          edi: { ...config.edi, nodes: [...config.edi.nodes, ...names] },
        }
      : config,
  };
}

function tableOf({ sporks }: Stretch, endpoints: readonly EndpointPlan[]) {
  const entries = sporks.map(({ chain: { generator } }: StretchSpork, spork) => ({
    name: `spork${spork}`,
    rootHeight: generator.rootHeight,
    endHeightExclusive: sporks[spork + 1]?.chain.generator.rootHeight ?? null,
    rootParentId: generator.parentId(generator.rootHeight),
    accessNodes: endpoints.filter((endpoint) => endpoint.spork === spork).map(({ name }) => name),
  }));
  return parseSporkTable({ devnet: entries }, 'devnet', 'of the simulation');
}

/** False for a rule about heights of which there are none. */
function hasHeights({ fromHeight = 0, toHeight = Infinity }: FaultRule): boolean {
  return fromHeight <= toHeight;
}
