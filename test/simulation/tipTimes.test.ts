import { describe, expect, it } from 'vitest';
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

const BLOCK_EVERY_MS = 800;
const WARM_UP_BLOCKS = 60;
const BLOCKS = 30;
const START_HEAD = 20;
const FIRST = START_HEAD + WARM_UP_BLOCKS + 1;
/** The watermark is looked at so often. */
const LOOK_EVERY_MS = 0.5;
/** Nothing of this takes time: messages take a millisecond, a commit two. */
const OWN_MS = 15;
/** A node that does not have the block yet is asked again so often. */
const AGAIN_MS = 100;

/** Compared with the network: its blocks come so late, its collections so long after; and each message takes about so long, one way. */
const PUNCTUAL = { blocksLateMs: 0, collectionLagMs: 0, collectionLagSpreadMs: 0, linkMs: 1 };
type TipNode = Partial<typeof PUNCTUAL>;

const usual: TipNode = { collectionLagMs: 46, collectionLagSpreadMs: 85 };

/** In virtual time. `lateMs`: of a share of the blocks, from the moment at which some node had all of it until it can be read. */
async function followTip(...compared: readonly TipNode[]) {
  const world = new SimulatedClock();
  const clock = new ProcessClock(world);
  const process = { clock, isDead: false };
  const chain = new Chain({ seed: 11, profile: 'mixed' });
  const hasFailed = (error: unknown): never => {
    throw error;
  };
  const reader = new RequestReader();
  const nodes = compared.map((each, index) => {
    const how = { ...PUNCTUAL, ...each };
    const lags = { collectionLagMs: how.collectionLagMs, collectionLagSpreadMs: how.collectionLagSpreadMs };
    const options = resolveNodeOptions({ blockIntervalMs: 1, startHead: START_HEAD, sealedLag: 4, ...lags });
    const node = new DevnetNode(options, { chain, clock: world });
    const endpoint = new SimulatedEndpoint(
      { name: `node${index}.test:9000`, unbound: [] },
      { dice: new Dice(index + 1, 'link'), onBug: hasFailed },
    );
    endpoint.link = { ...SOUND_LINK, usualMs: how.linkMs };
    endpoint.backends = [backendOf(node)];
    return { ...how, lags, node, endpoint };
  });
  const config = {
    ...faultFree(0, new Catalogue().at(0)).config,
    ...{ accessNodes: nodes.map(({ endpoint }) => endpoint.name), startHeight: 1, stopHeight: undefined },
    ...{ window: 64, edi: { enabled: false, nodes: [] } },
  };
  const calls = new Map<string, number>();
  const observer = {
    onCall: (_endpoint: string, method: string) => {
      calls.set(method, (calls.get(method) ?? 0) + 1);
      return () => undefined;
    },
    onRead: () => undefined,
  };
  const logger = silentLogger;
  const lifecycle = openLifecycle({ clock, logger });
  const writeFate = () => ({ writtenMs: 0.5, syncedMs: 1, toldMs: 0 });
  const store = await LevelIndexStore.over(
    new SimulatedDatabase(new SimulatedDisk(), { clock, writeFate }),
    { path: DISK_PATH, chainId: config.chainId, accounts: false },
    { clock, logger },
  );
  const parts = openUpstream(config, {
    ...{ store, lifecycle, sporks: [], clock, random: new Dice(1, 'process').random, logger },
    metrics: createMetrics({ version: 'simulation', node: globalThis.process.version }),
    openChannel: (options) => {
      const { endpoint } = nodes.find((node) => node.endpoint.name === options.endpoint.name)!;
      return new SimulatedChannel(options, { process, reader, worldClock: world, endpoint, observer });
    },
    room: { hasRoom: () => true, whenRoom: () => Promise.resolve() } as never,
  });
  lifecycle
    .waitFor(
      'work in hand',
      runIndexing(config, parts, () => undefined),
    )
    .catch(hasFailed);
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
  for (let height = START_HEAD + 1; height < FIRST + BLOCKS; height += 1) {
    if (height === FIRST) calls.clear();
    const madeAtMs = world.monotonic();
    for (const { blocksLateMs, node } of nodes) world.setTimer(blocksLateMs, () => node.head.set(height));
    const soonest = (lagOf: (node: (typeof nodes)[number]) => number): number =>
      Math.min(...nodes.map((node) => node.blocksLateMs + lagOf(node)));
    const { collections } = chain.generator.block(height);
    const lagsMs = collections.map(({ id }) => soonest(({ lags }) => collectionLagMs(lags, id)));
    // A height waits for the one below it.
    hasAllAtMs = Math.max(
      hasAllAtMs,
      madeAtMs +
        Math.max(
          soonest(() => 0),
          ...lagsMs,
        ),
    );
    const readAtMs = await readable(height);
    if (height >= FIRST) lateMs.push(readAtMs - hasAllAtMs);
    await advanceTo(Math.max(madeAtMs + BLOCK_EVERY_MS, world.monotonic()));
  }
  process.isDead = true;
  clock.kill();
  lateMs.sort((one, other) => one - other);
  return {
    lateMs: (share: number) => lateMs[Math.floor(share * (lateMs.length - 1))] ?? Number.NaN,
    callsPerBlock: (method: string) => (calls.get(method) ?? 0) / BLOCKS,
  };
}

/** In virtual time: nothing here depends on the machine. */
describe('a block at the tip can be read as soon as another node confirms it', () => {
  it.each<readonly [string, nodes: readonly TipNode[], withinMs: number, callsEach: number]>([
    ['two alike', [{}, {}], 0, 1],
    ['the first is 20 ms late', [{ blocksLateMs: 20 }, {}], 20, 1],
    ['the second is 300 ms late', [{}, { blocksLateMs: 300 }], 300 + AGAIN_MS, 4],
    ['of three the last is 300 ms late', [{}, {}, { blocksLateMs: 300 }], 0, 2],
    // There and back; a message takes half of it more at worst.
    ['50 ms to the second', [{}, { linkMs: 50 }], 150, 1],
  ])('%s', async (_, nodes, withinMs, callsEach) => {
    const { callsPerBlock, lateMs } = await followTip(...nodes);
    expect(lateMs(0.5)).toBeLessThanOrEqual(withinMs + OWN_MS);
    expect(lateMs(0.98)).toBeLessThanOrEqual(withinMs + OWN_MS);
    expect(callsPerBlock('GetBlockByHeight')).toBeLessThanOrEqual(callsEach * 1.1);
  });

  it('and its collections as soon as one has them, though the other takes its time to answer', async () => {
    const alone = await followTip(usual);
    const both = await followTip(usual, { ...usual, linkMs: 100 });
    // The question travels 100 ms, and the confirmation as long; 150 at worst.
    expect(both.lateMs(0.5)).toBeLessThanOrEqual(alone.lateMs(0.5) + 200);
    expect(both.lateMs(0.95)).toBeLessThanOrEqual(alone.lateMs(0.95) + 300);
    const FULL = 'GetFullCollectionByID';
    expect(both.callsPerBlock(FULL)).toBeLessThanOrEqual(alone.callsPerBlock(FULL) + 0.5);
  });
});
