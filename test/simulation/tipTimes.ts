import type { OpenChannel } from '../../src/access/index.js';
import { openLifecycle } from '../../src/app/lifecycle/openLifecycle.js';
import { openUpstream, runIndexing } from '../../src/app/line/runIndexing.js';
import { Chain, collectionLagMs, DevnetNode, resolveNodeOptions } from '../../src/devnet/index.js';
import { createMetrics, silentLogger } from '../../src/observability/index.js';
import { LevelIndexStore } from '../../src/storage/index.js';
import { Catalogue } from './catalogue.js';
import { Dice } from './Dice.js';
import { faultFree } from './scenario.js';
import { RequestReader, SimulatedChannel } from './SimulatedChannel.js';
import { ProcessClock, SimulatedClock } from './SimulatedClock.js';
import { DISK_PATH, SimulatedDatabase, SimulatedDisk } from './SimulatedDisk.js';
import { backendOf, SimulatedEndpoint, SOUND_LINK } from './SimulatedEndpoint.js';

/** One access node, and how it compares with the network. */
export interface TipNode {
  /** Its blocks come so long after those of the network. */
  readonly blocksLateMs?: number;
  /** Its collections come so long after its blocks; the spread as the devnet has it. */
  readonly collectionLagMs?: number;
  readonly collectionLagSpreadMs?: number;
  /** Each message takes about this long, one way. Default 1. */
  readonly linkMs?: number;
}

const BLOCK_EVERY_MS = 800;
const WARM_UP_BLOCKS = 60;
/** The watermark is looked at so often. */
const LOOK_EVERY_MS = 0.5;
const START_HEAD = 20;

/** The value below which this share of a sorted list lies. */
export function at(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
}

/**
 * Follows the tip of a chain over these nodes in virtual time. The same arguments give the same times: per block, ascending,
 * from the moment at which some node had all of it until it can be read, with the calls per block, by method.
 */
export async function followTip(nodes: readonly TipNode[], blocks: number) {
  const world = new SimulatedClock();
  const process = { clock: new ProcessClock(world), isDead: false };
  const { clock } = process;
  const chain = new Chain({ seed: 11, profile: 'mixed' });
  const { generator } = chain;
  const hasFailed = (error: unknown): never => {
    throw error;
  };
  const calls = new Map<string, number>();
  const metrics = createMetrics({ version: 'simulation', node: globalThis.process.version });
  const reader = new RequestReader();
  const devnets = nodes.map(
    ({ collectionLagMs: leastMs = 0, collectionLagSpreadMs = 0 }) =>
      new DevnetNode(
        resolveNodeOptions({
          ...{ blockIntervalMs: 1, startHead: START_HEAD, sealedLag: 4 },
          ...{ collectionLagMs: leastMs, collectionLagSpreadMs },
        }),
        { chain, clock: world },
      ),
  );
  const endpoints = nodes.map(({ linkMs = 1 }, index) => {
    const endpoint = new SimulatedEndpoint(
      { name: `node${index}.test:9000`, unbound: [] },
      { dice: new Dice(index + 1, 'link'), onBug: hasFailed },
    );
    endpoint.link = { ...SOUND_LINK, usualMs: linkMs };
    endpoint.backends = [backendOf(devnets[index]!)];
    return endpoint;
  });
  const names = endpoints.map(({ name }) => name);
  const plain = faultFree(0, new Catalogue().at(0)).config;
  const config = {
    ...{ ...plain, accessNodes: names, startHeight: 1, stopHeight: undefined, window: 64 },
    edi: { enabled: false, nodes: [] },
  };
  const openChannel: OpenChannel = (options) =>
    new SimulatedChannel(options, {
      ...{ process, reader, worldClock: world },
      endpoint: endpoints.find(({ name }) => name === options.endpoint.name)!,
      observer: {
        onCall: (_endpoint, method) => {
          calls.set(method, (calls.get(method) ?? 0) + 1);
          return () => undefined;
        },
        onRead: () => undefined,
      },
    });
  const database = new SimulatedDatabase(new SimulatedDisk(), {
    ...{ clock, onStage: () => undefined, readFate: () => ({ takesMs: 0 }) },
    writeFate: () => ({ writtenMs: 0.5, syncedMs: 1, toldMs: 0 }),
  });
  const lifecycle = openLifecycle({ clock, logger: silentLogger });
  const store = await LevelIndexStore.over(
    database,
    { path: DISK_PATH, chainId: config.chainId, accounts: false },
    { clock, logger: silentLogger },
  );
  const random = new Dice(1, 'process').random;
  const parts = openUpstream(config, {
    ...{ store, lifecycle, sporks: [], clock, random, metrics, logger: silentLogger, openChannel },
    room: { hasRoom: () => true, whenRoom: () => Promise.resolve() } as never,
  });
  const running = lifecycle.waitFor(
    'work in hand',
    runIndexing(config, parts, () => undefined),
  );
  running.catch(hasFailed);
  const advanceTo = async (untilMs: number): Promise<void> => {
    world.setTimer(untilMs - world.monotonic(), () => undefined);
    while (world.monotonic() < untilMs) {
      world.step();
      await world.settle();
    }
  };
  const readable = async (height: number): Promise<number> => {
    while (store.latestIndexedHeight() < height) await advanceTo(world.monotonic() + LOOK_EVERY_MS);
    return world.monotonic();
  };

  await readable(START_HEAD);
  const lateMs: number[] = [];
  let hasAllAtMs = 0;
  for (let height = START_HEAD + 1; height <= START_HEAD + WARM_UP_BLOCKS + blocks; height += 1) {
    if (height === START_HEAD + WARM_UP_BLOCKS + 1) calls.clear();
    const madeAtMs = world.monotonic();
    for (const [index, { blocksLateMs = 0 }] of nodes.entries())
      world.setTimer(blocksLateMs, () => devnets[index]!.head.set(height));
    const { collections } = generator.block(height);
    const firstHasMs = [
      Math.min(...nodes.map(({ blocksLateMs = 0 }) => blocksLateMs)),
      ...collections.map(({ id }) =>
        Math.min(
          ...nodes.map(
            ({ blocksLateMs = 0, collectionLagMs: leastMs = 0, collectionLagSpreadMs = 0 }) =>
              blocksLateMs + collectionLagMs({ collectionLagMs: leastMs, collectionLagSpreadMs }, id),
          ),
        ),
      ),
    ];
    // A height waits for the one below it.
    hasAllAtMs = Math.max(hasAllAtMs, madeAtMs + Math.max(...firstHasMs));
    const readAtMs = await readable(height);
    if (height > START_HEAD + WARM_UP_BLOCKS) lateMs.push(readAtMs - hasAllAtMs);
    await advanceTo(Math.max(madeAtMs + BLOCK_EVERY_MS, world.monotonic()));
  }
  process.isDead = true;
  clock.kill();
  return {
    lateMs: lateMs.sort((one, other) => one - other),
    calls: Object.fromEntries([...calls].map(([method, count]) => [method, count / blocks])),
  };
}
