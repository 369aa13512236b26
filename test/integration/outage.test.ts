import { expect, it } from 'vitest';
import { Catalogue } from '../simulation/catalogue.js';
import type { Scenario, WorldEvent } from '../simulation/plan.js';
import { faultFree } from '../simulation/scenario.js';
import { Simulation } from '../simulation/Simulation.js';
import { Workshop, World } from '../simulation/World.js';

/** Longer than anything that a pause, or patience with a node, lasts. */
const OUTAGE_MS = 7 * 60_000;
/** Recovery unaided: within a minute of the end of the outage. */
const RECOVERY_MS = 60_000;
const NODES = 3;

/** All nodes go away a second after the start, while there is work left, and come back after that. */
function outage(base: Scenario, how: 'refusing' | 'silent', middle: number, top: number): Scenario {
  const names = Array.from({ length: NODES }, (_, index) => `node${index}.test:9000`);
  const endpoints = names.map((name) => ({ ...base.endpoints[0]!, name }));
  const at = (atMs: number, event: WorldEvent) => ({ atMs, event });
  return {
    ...base,
    endpoints,
    config: { ...base.config, accessNodes: names, edi: { enabled: true, nodes: names } },
    startHead: middle,
    events: [
      ...endpoints.map((_, endpoint) => at(1_000, { kind: 'down', endpoint, how })),
      at(OUTAGE_MS / 2, { kind: 'head', height: top }),
      ...endpoints.map((_, endpoint) => at(1_000 + OUTAGE_MS, { kind: 'up', endpoint, prunedHeights: 0 })),
    ],
    quietAtMs: 1_000 + OUTAGE_MS,
  };
}

it.each(['refusing', 'silent'] as const)(
  'all nodes gone for seven minutes (%s): all is there a minute after their return',
  async (how) => {
    const stretch = new Catalogue().at(0);
    const reference = await new Simulation().reference(0);
    const middle = Math.floor((stretch.firstHeight + stretch.stopHeight) / 2);
    const scenario = outage(faultFree(0, stretch), how, middle, stretch.endHeight);
    const world = new World(scenario, { stretch, workshop: new Workshop() });
    const { digest, virtualMs } = await world.run(() => reference);
    expect(virtualMs).toBeGreaterThan(scenario.quietAtMs);
    expect(virtualMs - scenario.quietAtMs).toBeLessThan(RECOVERY_MS);
    expect(digest).toBe(reference);
  },
);
