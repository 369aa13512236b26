import { describe, expect, it } from 'vitest';
import type { RootParent } from '../../../src/finality/index.js';
import { range, Reading, reads, World } from './bench.js';

const STREAM = 'SubscribeBlocksFromStartHeight';
const CALL = 'GetBlockByHeight';

it.each([
  ['wrong_height', 'lied'],
  ['malformed', 'failing'],
] as const)('are refused, counted, held against the node, asked elsewhere: %s', async (reason, fault) => {
  const { world, reading } = reads({ window: 10 }, 'liar', 'honest');
  const block = world.chain.block(104);
  world.node('liar').odd.set(103, reason === 'malformed' ? reason : { block, status: 'finalized' });
  await reading.moveHead(105, 400);
  expect(reading.available()).toEqual(range(101, 105));
  expect(world.invalidBlocks.counts).toEqual({ [reason]: 1 });
  expect(world.nodes.faults()).toEqual([`liar ${fault}`]);
});

describe('at the tip, where no child is known', () => {
  const streamLie = (world: World, name: string, at = 102) => {
    world.node(name).says = (method, height) =>
      method === STREAM && height === at ? { block: world.strayed(at), status: 'finalized' } : undefined;
  };
  /** What the reading gives at a height within a second. */
  const given = async ({ world, reading }: ReturnType<typeof reads>, at: number) => {
    const ids = new Set<string | undefined>();
    for (let times = 0; times < 10; times += 1) {
      ids.add(reading.idAt(at));
      await world.clock.advance(100);
    }
    return ids.add(reading.idAt(at));
  };
  const calls = (world: World) =>
    world.nodes.all.reduce((sum, node) => sum + node.count('GetBlockByHeight'), 0);

  it.each(['finalized', 'unknown'] as const)(
    'never hands out a block that its blockSource recants, by a call that says %s of it',
    async (says) => {
      const { world, reading } = reads({ window: 10 }, 'liar', 'honest');
      streamLie(world, 'liar');
      if (says === 'unknown') world.node('liar').odd.set(102, { block: world.strayed(102), status: says });
      const handedOut: (string | undefined)[] = [];
      for (const head of [101, 102, 103, 104]) {
        await reading.moveHead(head);
        handedOut.push(...(await given({ world, reading }, 102)));
        expect(reading.available()).toEqual(range(101, head));
      }
      expect([...new Set(handedOut)]).toEqual([undefined, world.chain.idAt(102)]);
      expect(reading.replaced).toEqual([]);
      expect(world.nodes.faults()).toEqual(['liar lied']);
      expect(world.invalidBlocks.counts).toEqual({ orphaned: 1 });
    },
  );

  it('takes the true block from the only node, by its call, when the head that it reports is another one', async () => {
    const world = new World('a');
    streamLie(world, 'a');
    const reading = new Reading(world, { window: 10, headId: (height) => world.chain.idAt(height) });
    await reading.moveHead(102, 2_000);
    expect(reading.available()).toEqual([101, 102]);
    expect(reading.idAt(102)).toBe(world.chain.idAt(102));
    expect(world.node('a').count(CALL, 101)).toBe(0);
  });

  it.each(['unavailable', 'internal', 'forged'] as const)(
    'asks another node in the place of one whose call ends with %s, and hands out no lie',
    async (kind) => {
      const { world, reading } = reads({ window: 10 }, 'liar', 'broken', 'honest');
      streamLie(world, 'liar');
      const broken = world.node('broken');
      broken.says = (method, height) => (method === CALL && height === 102 ? kind : undefined);
      await reading.moveHead(102);
      const ids = [undefined, world.chain.idAt(102)];
      expect(ids).toEqual(expect.arrayContaining([...(await given({ world, reading }, 102))]));
      expect(reading.idAt(102)).toBe(ids[1]);
      expect(broken.count(CALL, 102)).toBeLessThanOrEqual(2);
    },
  );

  it('asks others before a node that was late before, whose silence would pass for a yes', async () => {
    const { world, reading } = reads({ window: 10 }, 'liar', 'late', 'honest');
    const lacks = (method: string, height: number) =>
      method === CALL && height >= 102 ? ('not_found' as const) : undefined;
    for (const name of ['late', 'honest']) world.node(name).says = lacks;
    await reading.moveHead(102, 2_000);
    expect(reading.available()).toEqual([101, 102]);
    world.node('honest').says = () => undefined;
    streamLie(world, 'liar', 103);
    await reading.moveHead(103);
    expect([undefined, world.chain.idAt(103)]).toEqual(
      expect.arrayContaining([...(await given({ world, reading }, 103))]),
    );
    expect(world.node('honest').count(CALL, 103)).toBeGreaterThan(0);
  });

  it('waits once for a node that is further behind than the next block is away', async () => {
    const { world, reading } = reads({ window: 10 }, 'a', 'behind');
    world.node('behind').says = (method) => (method === CALL ? 'not_found' : undefined);
    const waits: boolean[] = [];
    for (const head of range(102, 104)) {
      await reading.moveHead(head, 1);
      waits.push(!reading.available().includes(head));
      await world.clock.advance(800);
    }
    expect(waits).toEqual([true, false, false]);
  });

  it('blames nobody while one node stands against one that cannot be heard', async () => {
    const { world, reading } = reads({ window: 10 }, 'a', 'foreign', 'dead');
    world.gives('foreign', world.strayed(102));
    // The streams go on, the calls are lost.
    for (const name of ['a', 'dead'])
      world.node(name).says = (method) => (method === CALL ? 'unavailable' : undefined);
    await reading.moveHead(102, 3_000);
    expect(world.nodes.faults()).not.toContain('a lied');
    await reading.moveHead(103, 1_000);
    expect(reading.idAt(102)).toBe(world.chain.idAt(102));
    expect(world.nodes.faults()).not.toContain('a lied');
  });

  it('waits for the child of a block on which the nodes disagree, and names who gave it', async () => {
    const { world, reading } = reads({ window: 10 }, 'liar', 'honest');
    world.gives('liar', world.strayed(102));
    await reading.moveHead(102, 5_000);
    expect(reading.available()).toEqual([101]);
    const said = 'streamed a block 102 that honest does not call finalized';
    const troubles = [{ node: 'liar', kind: 'invalid', count: 3, said }];
    expect(reading.blocks.heldUpBy()).toMatchObject({ height: 102, isUnserved: false, troubles });
    await reading.moveHead(103, 1_000);
    expect(reading.available()).toEqual([101, 102, 103]);
    expect(reading.idAt(102)).toBe(world.chain.idAt(102));
    expect(reading.blocks.heldUpBy()).toBeUndefined();
    expect(reading.replaced).toEqual([]);
    expect(world.nodes.faults()).toEqual(['liar lied']);
  });

  it.each<readonly [string, lateMs: readonly number[], withinMs: number, callsEach: number]>([
    ['it streamed later itself', [20, 0], 20, 1],
    ['it is late, and asked again every 100 ms', [0, 300], 400, 4],
    ['of two others the first is late', [0, 300, 0], 0, 2],
  ])('hands a block out as soon as another node has it: %s', async (_, lateMs, withinMs, callsEach) => {
    const { world, reading } = reads({ window: 10 }, ...['a', 'b', 'c'].slice(0, lateMs.length));
    await reading.moveHead(101);
    for (const height of range(102, 110)) {
      for (const [place, node] of world.nodes.all.entries())
        world.clock.setTimer(lateMs[place]!, () => node.advance(height));
      await world.clock.advance(0);
      reading.head = height;
      reading.heights.moved();
      reading.blocks.notify();
      await world.clock.advanceUntil(() => reading.available().includes(height), withinMs + 1);
      await world.clock.advance(800);
      await reading.makeDurable(height);
    }
    expect(calls(world)).toBeLessThanOrEqual(10 * callsEach);
  });
});

it('replaces nothing while the nodes disagree on what it should be', async () => {
  const { world, reading } = reads({ window: 10 }, 'blockSource', 'b', 'c');
  const tell = (name: string, fork: string) =>
    world.gives(name, world.strayed(102, fork), world.chain.fork(fork, 102).block(103));
  tell('blockSource', 'x');
  tell('b', 'y');
  tell('c', 'z');
  for (const { unknown } of world.nodes.all) unknown.add('GetBlockByHeight');
  await reading.moveHead(102);
  const first = reading.idAt(102);
  for (const { unknown } of world.nodes.all) unknown.clear();
  world.node('blockSource').odd.set(103, 'unavailable');
  await reading.moveHead(103, 60_000);
  expect(reading.available()).toEqual([101, 102]);
  expect(reading.idAt(102)).toBe(first);
  expect(reading.replaced).toEqual([]);
  tell('c', 'y');
  await world.clock.advance(11_000);
  expect(reading.available()).toEqual([101, 102, 103]);
  expect(reading.replaced).toEqual([{ height: 102, id: world.strayed(102, 'y').id }]);
  expect(world.nodes.faults()).toContain('blockSource lied');
  expect(world.nodes.faults()).not.toContain('b lied');
});

describe('with the latest stored block', () => {
  /** The store followed a fork from `firstDiscarded` on, which the network has discarded. */
  function discarded(firstDiscarded: number, { reads = true } = {}) {
    const world = new World('a', 'b');
    const stored = world.chain.fork('discarded', firstDiscarded);
    const asked: number[] = [];
    const storedBlock = (height: number) => {
      asked.push(height);
      return Promise.resolve({ id: stored.idAt(height) });
    };
    const options = { window: 10, watermark: 500, firstHeight: 10 };
    const reading = new Reading(world, reads ? { ...options, storedBlock } : options);
    reading.latest = stored.block(500);
    return { world, reading, stored, asked };
  }

  it('names the height to rewind to, once', async () => {
    const { world, reading, stored } = discarded(497);
    await reading.moveHead(600, 1_500);
    // The nodes' names may lead elsewhere for a moment.
    expect(reading.blocks.chainTrouble()).toBeUndefined();
    await world.clock.advance(60_000);
    const mismatch = reading.blocks.chainTrouble();
    expect(mismatch).toMatchObject({ code: 'parent_mismatch', height: 501 });
    expect(mismatch?.what).toBe(
      `Block ${world.chain.idAt(501)} at height 501 names ${world.chain.idAt(500)} as its parent, not ${stored.idAt(500)}, which is stored at height 500`,
    );
    expect(mismatch?.fix).toContain('flow-collection-indexer rewind --to 496 --yes');
    // The network has no sporks.
    expect(mismatch?.fix).not.toContain('spork');
    expect(mismatch?.fix).toContain('another chain, or another history of it');
    expect(mismatch?.fix).toContain('--data-dir');
    const fields = { fix: `${mismatch?.what}: ${mismatch?.fix}` };
    expect(world.logger.of('error')).toMatchObject([
      { message: 'no access node confirms the latest stored block', fields },
    ]);
    expect(reading.blocks.heldUpBy()?.troubles).toMatchObject([
      { kind: 'invalid', said: 'sent block 501, which does not follow block 500' },
      { kind: 'invalid' },
    ]);
    // Honest nodes are not reported for what a spork did, and are asked every 10 s only.
    expect(world.nodes.faults()).toEqual([]);
    expect(world.node('a').count('SubscribeBlocksFromStartHeight')).toBeLessThanOrEqual(7);
    expect(reading.available()).toEqual([]);
  });

  it.each([
    ...[500, 499, 433, 100, 12].map((at) => [at, 0] as const),
    ...[498, 497, 490, 401, 100, 12].map((at) => [at, at] as const),
  ])('finds the fork at %i in few steps, where nobody serves heights below %i', async (fork, root) => {
    const { world, reading, asked } = discarded(fork);
    for (const node of world.nodes.all) node.root = root;
    await reading.moveHead(600, 3_000);
    expect(reading.blocks.chainTrouble()?.fix).toContain(`rewind --to ${fork - 1} --yes`);
    expect(asked.length).toBeLessThan(20);
    expect(Math.min(...asked)).toBeGreaterThanOrEqual(10);
  });

  it('advises one height below when it cannot look', async () => {
    const { reading } = discarded(497, { reads: false });
    await reading.moveHead(600, 3_000);
    expect(reading.blocks.chainTrouble()?.fix).toContain('rewind --to 499 --yes');
    const world = new World('a');
    const ofOne = new Reading(world, { window: 10, watermark: 0 });
    ofOne.latest = { ...world.chain.block(0), id: world.strayed(1).id };
    await ofOne.moveHead(9, 3_000);
    expect(ofOne.blocks.chainTrouble()?.fix).toMatch(/To go on, start with another [^;]+--store\.$/);
  });

  it('is certain within ten seconds while a node does not answer at all', async () => {
    const { world, reading } = discarded(497);
    const hanging = world.node('b');
    hanging.getBlockByHeight = (_height, options) =>
      new Promise((_, reject) => {
        const timer = world.clock.setTimer(options?.timeoutMs ?? 10_000, () =>
          reject(hanging.error('deadline', 'GetBlockByHeight')),
        );
        options?.signal?.addEventListener('abort', () => {
          timer.cancel();
          reject(options.signal?.reason as Error);
        });
      });
    await reading.moveHead(600, 10_000);
    expect(reading.blocks.chainTrouble()).toMatchObject({ code: 'parent_mismatch', height: 501 });
  });

  it('believes the single call of a node whose stream alone breaks the chain', async () => {
    const { world, reading } = reads({ window: 10 }, 'a');
    const lie = world.chain.fork('fork', 90).block(101);
    world.node('a').says = (method, height) => {
      if (method !== STREAM) return undefined;
      return height === 101 ? { block: lie, status: 'finalized' } : 'end';
    };
    await reading.moveHead(105, 10_000);
    expect(reading.blocks.head()).toBe(105);
    expect(reading.blocks.chainTrouble()).toBeUndefined();
  });

  it('is over when a node confirms the block after all', async () => {
    const { world, reading, stored } = discarded(497);
    await reading.moveHead(600, 3_000);
    expect(reading.blocks.chainTrouble()).toBeDefined();
    world.node('b').chain = stored;
    await world.clock.advance(11_000);
    expect(reading.blocks.chainTrouble()).toBeUndefined();
    expect(reading.idAt(501)).toBe(stored.idAt(501));
    expect(world.logger.messages()).toContain('the latest stored block is confirmed again');
  });

  it('does not suspect the store for the lie of one node among several', async () => {
    const { world, reading } = reads({ window: 10 }, 'liar', 'honest');
    world.node('liar').chain = world.chain.fork('fork', 90);
    await reading.moveHead(105, 1_000);
    expect(reading.available()).toEqual(range(101, 105));
    expect(reading.blocks.chainTrouble()).toBeUndefined();
    expect(world.nodes.faults()).toEqual(['liar lied']);
  });

  it('blames nobody for it while no node tells of the block below, and then who gave that', async () => {
    const { world, reading } = reads({ window: 10 }, 'liar', 'honest');
    let isSilent = true;
    world.gives('liar', world.strayed(102));
    for (const node of world.nodes.all) {
      const isLiar = node.name === 'liar';
      node.says = (method, height) => {
        if (method === STREAM) return isLiar && height > 102 ? 'end' : undefined;
        return isSilent && (height === 102 || isLiar) ? 'unavailable' : undefined;
      };
    }
    await reading.moveHead(105, 5_000);
    expect(reading.available()).not.toContain(103);
    expect(world.nodes.faults()).not.toContain('honest lied');
    isSilent = false;
    await world.clock.advance(5_000);
    expect(world.nodes.faults()).toContain('liar lied');
    expect(world.nodes.faults()).not.toContain('honest lied');
  });

  it('sees that what became durable is not what it had linked', async () => {
    const { world, reading } = reads({ window: 10 }, 'a');
    await reading.moveHead(105);
    expect(reading.available()).toEqual(range(101, 105));
    const stored = world.chain.fork('earlier run', 102);
    await reading.makeDurable(102, stored.block(102));
    await world.clock.advance(3_000);
    expect(reading.available()).toEqual([]);
    expect(reading.blocks.chainTrouble()?.what).toContain(`not ${stored.idAt(102)}`);
  });
});

/** The root at 103 names the last block of the spork before. */
const rootOf = ({ chain }: World): RootParent => ({ rootHeight: 103, rootParentId: chain.idAt(102) });
const sporkRootsOf = (world: World): RootParent[] => [rootOf(world)];
/** Of the last block before the root, the liar gives another one; no node has both. */
function atSpork(liar: string, others: readonly string[], isInTable = false) {
  const world = new World(liar, ...others);
  world.nodes.serving = (node, height) => (node.name === 'new') === height >= 103;
  world.gives(liar, world.strayed(102));
  const sporkRoots = isInTable ? sporkRootsOf(world) : [];
  return { world, reading: new Reading(world, { window: 10, sporkRoots }) };
}

it('at a spork: finds out who lied of the last block before the root, though no node has both, and goes on where it cannot tell when the lie ends', async () => {
  const told = atSpork('liar', ['old', 'new']);
  await told.reading.moveHead(105, 1_000);
  expect(told.reading.available()).toEqual(range(101, 105));
  expect(told.reading.idAt(102)).toBe(told.world.chain.idAt(102));
  expect(told.world.nodes.faults()).toEqual(['liar lied']);
  const { world, reading } = atSpork('old', ['new']);
  await reading.moveHead(105, 1_000);
  expect(reading.available()).toEqual([101]);
  expect(world.nodes.faults()).toEqual([]);
  world.node('old').odd.clear();
  await world.clock.advance(20_000);
  expect(reading.available()).toEqual(range(101, 105));
  expect(world.nodes.faults()).toEqual(['old lied']);
});

it('at a spork: takes the last block that the spork table confirms, and knows the liar', async () => {
  const { world, reading } = atSpork('liar', ['old', 'new'], true);
  // The next spork is not heard of: nothing but the table tells.
  await reading.moveHead(102, 1_000);
  expect(reading.idAt(102)).toBe(world.chain.idAt(102));
  expect(world.nodes.faults()).toEqual(['liar lied']);
  expect(world.invalidBlocks.counts).toEqual({ not_vouched: 1 });
  expect(reading.blocks.chainTrouble()).toBeUndefined();
});

it('at a spork: waits for that block where nobody has it, and says so', async () => {
  const { world, reading } = atSpork('old', ['new'], true);
  await reading.moveHead(105, 60_000);
  expect(reading.linked()).toEqual([101]);
  expect(new Set(world.nodes.faults())).toEqual(new Set(['old lied']));
  expect(reading.blocks.chainTrouble()).toMatchObject({
    ...{ code: 'not_vouched', height: 102 },
    what: expect.stringContaining(`has block ${world.chain.idAt(102)} at height 102`) as string,
  });
  const message = 'no access node has the last block of the spork';
  expect(world.logger.of('error')).toMatchObject([{ message }]);
  world.node('old').odd.clear();
  await world.clock.advance(20_000);
  expect(reading.available()).toEqual(range(101, 105));
  expect(reading.blocks.chainTrouble()).toBeUndefined();
});

it('at a spork: takes no block below a root that is in the table for one of the tip', async () => {
  const world = new World('a');
  const reading = new Reading(world, { window: 10, sporkRoots: sporkRootsOf(world) });
  await reading.moveHead(101);
  expect(reading.linked()).toEqual([101]);
  expect(reading.available()).toEqual([]);
  await reading.moveHead(102);
  expect(reading.available()).toEqual([101, 102]);
});

it('at a spork: takes another parent that the table names at the root height only', async () => {
  const world = new World('a');
  const fork = world.chain.fork('new spork', 102);
  const sporkRoots = [{ rootHeight: 104, rootParentId: fork.idAt(102), rootParentIsBelow: false }];
  world.gives('a', fork.block(103));
  const reading = new Reading(world, { window: 10, sporkRoots });
  await reading.moveHead(105);
  expect(reading.linked()).toEqual([101, 102]);
});
