import { afterEach, beforeEach, expect } from 'vitest';
import { AccessNetwork } from '../../../src/access/index.js';
import type { AccessNetworkDependencies, NodeVersionInfo } from '../../../src/access/index.js';
import type { AccessNetworkOptions } from '../../../src/access/pool/NodePool.js';
import type { Expectation } from '../../../src/access/pool/identity/nodeIdentity.js';
import { createMetrics } from '../../../src/observability/index.js';
import { seededRandom, RecordingLogger, VirtualClock } from '../../support/index.js';
import { ScriptedNodes, type NodeScript } from './scriptedNode.js';

/** What a node says of itself that is of the spork with this root, and begins there too unless told otherwise. */
export function version(root: number, nodeRoot = root, sporkId = 'aa'.repeat(32)): NodeVersionInfo {
  return { semver: 'v1', sporkId, sporkRootHeight: root, nodeRootHeight: nodeRoot };
}

/** The world of one test of `AccessNetwork`: scripted nodes in virtual time. */
export class ScriptedWorld {
  readonly clock = new VirtualClock();
  readonly logger = new RecordingLogger();
  readonly metrics = createMetrics({ version: 'test', node: 'test' });
  readonly stop = new AbortController();
  /** What is awaited at the end: each network until it has stopped. */
  readonly running: Promise<void>[] = [];

  /** A network that runs until the end of the test; of the chain of `--network devnet` unless told. */
  readonly over = (
    options: Partial<AccessNetworkOptions>,
    parts: Pick<AccessNetworkDependencies, 'openNode' | 'openChannel'>,
    expectation: Partial<Expectation> = {},
  ): AccessNetwork => {
    const { clock, logger, metrics } = this;
    const net = new AccessNetwork(
      {
        ...{ accessNodes: [], sporks: [], ratePerSecond: 0, userAgent: 'test' },
        ...{ maxMessageBytes: 1_000_000, timeoutMs: 1_000, ...options },
      },
      {
        ...{ clock, logger, metrics, random: seededRandom(1), ...parts },
        expectation: () => ({ chainId: 'flow-localnet', network: 'devnet', sporks: [], ...expectation }),
      },
    );
    this.running.push(net.run(this.stop.signal).finally(() => net.close()));
    return net;
  };

  /** A network of these nodes, all of them access nodes unless told, likewise. */
  readonly network = (
    scripts: Readonly<Record<string, NodeScript>>,
    options: Partial<AccessNetworkOptions> = {},
    expectation: Partial<Expectation> = {},
  ) => {
    const nodes = new ScriptedNodes(scripts);
    const parts = { openNode: nodes.open };
    return { net: this.over({ accessNodes: Object.keys(scripts), ...options }, parts, expectation), nodes };
  };

  /** The same, once every node that answers at once has said who it is. */
  readonly identified = async (...made: Parameters<typeof this.network>) => {
    const { net, nodes } = this.network(...made);
    await net.whenIdentified(this.stop.signal);
    await this.clock.settle();
    return { net, nodes };
  };
}

/** A new world before each test; after it everything has ended, and no timer is left. */
export function scriptedWorlds(): { readonly world: () => ScriptedWorld } {
  let world: ScriptedWorld;

  beforeEach(() => {
    world = new ScriptedWorld();
  });

  afterEach(async () => {
    world.stop.abort();
    await Promise.all(world.running);
    expect(world.clock.pendingTimers).toBe(0);
  });

  return { world: () => world };
}
