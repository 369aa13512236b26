import { expect, it } from 'vitest';
import { UpstreamError } from '../../../src/access/index.js';
import { range, Reading, reads, World } from './bench.js';

const stream = 'SubscribeBlocksFromStartHeight';

it('hands the last block out with its child, or near the tip, which is not what is far below a height that the chain has reached', async () => {
  const { reading } = reads({ window: 5 }, 'a');
  await reading.moveHead(108);
  expect(reading.linked()).toEqual(range(101, 105));
  expect(reading.available()).toEqual(range(101, 104));
  await reading.makeDurable(101);
  // 106 is two below the head: nobody could say when its child will be known.
  expect(reading.linked()).toEqual(range(102, 106));
  expect(reading.available()).toEqual(range(102, 106));
  // The head moves on. What was handed out stays handed out.
  await reading.moveHead(200);
  expect(reading.available()).toEqual(range(102, 106));
  const { reading: lagging } = reads({ window: 10, reachedHeight: 109 }, 'a');
  // A node that lags tells of a head far below what an earlier process made durable.
  await lagging.moveHead(103);
  expect(lagging.linked()).toEqual(range(101, 103));
  expect(lagging.available()).toEqual(range(101, 102));
  await lagging.moveHead(108);
  expect(lagging.available()).toEqual(range(101, 108));
});

it('says once that no node serves the next height, and not in the moment before one does', async () => {
  const { world, reading } = reads({ window: 5 }, 'a');
  world.nodes.serving = () => false;
  const told = () => world.logger.messages().filter((message) => message.startsWith('no access node serves'));
  await reading.moveHead(110, 2_000);
  expect(told()).toEqual([]);
  await world.clock.advance(600_000);
  expect(told()).toHaveLength(1);
  world.nodes.serving = () => true;
  await world.clock.advance(20_000);
  expect(reading.linked()).toEqual(range(101, 105));
});

it('drops a block that arrives after the watermark has passed it', async () => {
  const { world, reading } = reads({ window: 4 }, 'a');
  await reading.moveHead(102);
  world.node('a').silent = true;
  await reading.moveHead(200);
  await reading.makeDurable(110);
  world.node('a').silent = false;
  world.node('a').poke();
  await world.clock.settle();
  expect(reading.linked()).toEqual(range(111, 114));
  expect(world.invalidBlocks.counts).toEqual({});
  expect(world.nodes.faults()).toEqual([]);
});

it('streams: asks again after 200 ms for a tip that is not there yet, at every tip, and reports nobody', async () => {
  const { world, reading } = reads({ window: 10 }, 'a');
  await reading.moveHead(101);
  for (let height = 102; height < 150; height += 1) {
    // A load balancer, and a node behind it that is late.
    world.node('a').failsOnce.set(height, 'not_found');
    await reading.moveHead(height);
    await world.clock.advance(200);
    expect(reading.blocks.head()).toBe(height);
    await reading.makeDurable(height);
  }
  expect(world.nodes.faults()).toEqual([]);
});

it.each([
  ['the call, over the connection over which the node has identified itself', undefined, 'main'],
  ['a stream, which may lead to another node, while such calls fail', 'deadline', 'elsewhere'],
] as const)('takes the first block of an empty index from %s', async (_way, failure, expected) => {
  const { world, reading } = reads({ window: 10, empty: true }, 'a');
  const elsewhere = world.chain.fork('elsewhere', 0);
  world.node('a').says = (method, height) =>
    method === stream ? { block: elsewhere.block(height), status: 'finalized' } : failure;
  await reading.moveHead(103, 20_000);
  const chain = expected === 'main' ? world.chain : elsewhere;
  expect(reading.blocks.blockAt(101)?.id).toBe(chain.idAt(101));
  // A stream gives all above.
  if (failure === undefined) expect(world.node('a').calls[1]).toEqual({ method: stream, height: 102 });
});

it('streams: opens a stream again that owes a block for longer than 8 s', async () => {
  const { world, reading } = reads({ window: 10 }, 'a', 'b');
  await reading.moveHead(101);
  const owing = world.node('a');
  // Slow as it is, it owes none of these for so long.
  for (const head of range(102, 105)) {
    owing.silent = true;
    await reading.moveHead(head, 2_500);
    owing.silent = false;
    owing.poke();
    await world.clock.settle();
  }
  expect(world.streamReopens.counts).toEqual({});
  owing.silent = true;
  await reading.moveHead(107);
  const tookMs = await world.clock.advanceUntil(() => reading.blocks.head() === 107);
  expect(tookMs).toBeLessThanOrEqual(10_000);
  expect(world.nodes.faults()).toEqual(['a stale']);
  expect(world.streamReopens.counts).toEqual({ 'blocks stale': 1 });
});

it('streams: leaves a stream that delivers, and more slowly than the chain grows', async () => {
  const { world, reading } = reads({ window: 500 }, 'a');
  const node = world.node('a');
  await reading.moveHead(101);
  let streamed = 101;
  node.says = (method, height) => (method === stream && height > streamed ? 'hang' : undefined);
  // Four blocks for each one that the stream brings.
  for (let step = 1; step <= 30; step += 1) {
    await reading.moveHead(101 + 4 * step, 2_500);
    streamed += 1;
    node.poke();
  }
  await world.clock.settle();
  expect(reading.blocks.head()).toBe(reading.head);
  expect(world.streamReopens.counts).toEqual({ 'blocks lagging': 1 });
  expect(world.nodes.faults()).toEqual(['a stale']);
});

it('streams: forgives a node that gave up on a stream which was paused for long', async () => {
  const { world, reading } = reads({ window: 2 }, 'a');
  await reading.moveHead(110, 60_000);
  world.node('a').failsOnce.set(103, 'deadline');
  await reading.makeDurable(102);
  expect(reading.linked()).toEqual([103, 104]);
  expect(world.nodes.faults()).toEqual([]);
  expect(world.streamReopens.counts).toEqual({ 'blocks deadline': 1 });
});

/** A world whose nodes deliver no block by stream, in this way, and all of them by call. */
function brokenStreams(how: 'ended' | 'internal' | 'silent' | 'not_found', ...names: string[]) {
  const world = new World(...names);
  let broken = true;
  const answers = { ended: 'end', internal: 'internal', silent: 'hang', not_found: 'not_found' } as const;
  for (const node of world.nodes.all)
    node.says = (method) => (broken && method === stream ? answers[how] : undefined);
  return { world, fix: () => void (broken = false) };
}
const told = (world: World) => world.logger.messages().filter((message) => message.includes('stream'));

it.each(['ended', 'internal', 'silent', 'not_found'] as const)(
  'where one way fails: reads by single calls where streams are %s, and by stream again later',
  async (how) => {
    const { world, fix } = brokenStreams(how, 'a');
    const reading = new Reading(world, { window: 50 });
    await reading.moveHead(120);
    const tookMs = await world.clock.advanceUntil(() => reading.blocks.head() === 120);
    expect(tookMs).toBeLessThanOrEqual(12_000);
    const warning = { message: 'streams fail, using single calls instead', fields: { node: 'a' } };
    expect(world.logger.of('warn')).toMatchObject([warning]);
    expect(['a failing', 'a stale']).toEqual(expect.arrayContaining(world.nodes.faults()));
    fix();
    await world.clock.advance(60_000);
    await reading.moveHead(125, 30_000);
    expect(reading.available()).toEqual(range(101, 125));
    expect(told(world)).toEqual(['streams fail, using single calls instead', 'a stream works again']);
  },
);

it('where one way fails: does not go through all nodes first where every stream is silent', async () => {
  const { world } = brokenStreams('silent', 'a', 'b', 'c', 'd');
  const reading = new Reading(world, { window: 50 });
  await reading.moveHead(120);
  const tookMs = await world.clock.advanceUntil(() => reading.blocks.head() === 120);
  expect(tookMs).toBeLessThanOrEqual(12_000);
});

it('where one way fails: asks block by block below where the stream begins, and reports nobody', async () => {
  const { world, reading } = reads({ window: 50 }, 'a');
  const node = world.node('a');
  const where = { node: 'a', method: stream, lowestHeight: 110 } as const;
  const said = 'start height 101 is lower than lowest indexed height 110';
  node.says = (method, height) =>
    method === stream && height < 110 ? new UpstreamError('below_root', where, said) : undefined;
  await reading.moveHead(120, 1_000);
  expect(reading.blocks.head()).toBe(120);
  const streamed = node.calls.filter(({ method }) => method === stream);
  expect(streamed.map(({ height }) => height)).toEqual([101, 110]);
  expect(world.nodes.faults()).toEqual([]);
});

it('where one way fails: asks at once when it is told that a node answers again', async () => {
  const { world, reading } = reads({ window: 50 }, 'a');
  world.node('a').down = true;
  await reading.moveHead(105, 120_000);
  world.node('a').down = false;
  reading.blocks.wake();
  await world.clock.settle();
  expect(reading.blocks.head()).toBe(105);
});

it('what holds up the next block is each node with its words, how often and since when', async () => {
  const { world, reading } = reads({ window: 5 }, 'a', 'b');
  for (const node of world.nodes.all) node.odd.set(101, 'internal');
  await reading.moveHead(103, 10_000);
  const held = reading.blocks.heldUpBy();
  expect(held).toMatchObject({ height: 101, isUnserved: false });
  expect(held?.troubles.map(({ node, kind, sinceMs }) => [node, kind, sinceMs < 1_000])).toEqual([
    ['a', 'refused', true],
    ['b', 'refused', true],
  ]);
  expect(held?.troubles[0]?.count).toBeGreaterThan(2);
  for (const node of world.nodes.all) node.odd.clear();
  await world.clock.advance(15_000);
  expect(reading.blocks.heldUpBy()).toBeUndefined();
});

it.each([
  ['silence', 'hang', 5_000, { node: 'a', method: stream, kind: 'unreachable', count: 1 }],
  ['a node that does not learn of it', 'not_found', 6_000, { node: 'a', kind: 'denied' }],
] as const)('what holds up the next block is %s, from the fifth second on', async (_, odd, ms, trouble) => {
  const { world, reading } = reads({ window: 5 }, 'a');
  world.node('a').odd.set(101, odd);
  await reading.moveHead(103, ms);
  expect(reading.blocks.heldUpBy()).toMatchObject({ troubles: [trouble] });
});

it('what holds up the next block is not a node that learns of it a moment later, while another has no answer', async () => {
  const { world, reading } = reads({ window: 5 }, 'late', 'mute');
  world.node('late').failsOnce.set(101, 'not_found');
  world.node('mute').odd.set(101, 'hang');
  await reading.moveHead(103, 4_500);
  expect(reading.blocks.heldUpBy()).toBeUndefined();
  await world.clock.advance(1_500);
  expect(reading.linked()).toEqual(range(101, 103));
});

it.each([
  ['other height', 'sent a block of height 102 for height 101'],
  ['orphan', 'sent block 101 off the finalized chain'],
  ['parent', 'sent block 101, which does not follow block 100'],
] as const)('what holds up the next block is what a node sends that is wrong: %s', async (kind, said) => {
  const { world, reading } = reads({ window: 5 }, 'a');
  const block = {
    'other height': world.chain.block(102),
    orphan: world.chain.block(101),
    parent: world.chain.fork('fork', 90).block(101),
  }[kind];
  const status = kind === 'orphan' ? 'unknown' : 'finalized';
  world.node('a').odd.set(101, { block, status });
  await reading.moveHead(103, 10_000);
  expect(reading.blocks.heldUpBy()?.troubles).toMatchObject([{ node: 'a', kind: 'invalid', said }]);
  // It is told once, however often it is sent.
  const refused = world.logger.of('warn').filter(({ message }) => message === 'a block was refused');
  expect(refused.length).toBeLessThanOrEqual(1);
});

it('tells once that a node gives another chain, however many blocks of the one before are left', async () => {
  const { world, reading } = reads({ window: 30 }, 'a');
  await reading.moveHead(120, 2_000);
  world.gives('a', ...range(101, 130).map((height) => world.chain.fork('fork', 101).block(height)));
  await reading.moveHead(130, 60_000);
  const refused = world.logger.of('warn').filter(({ message }) => message === 'a block was refused');
  expect(refused).toHaveLength(1);
});

it('polls a node whose streams are all taken, and asks it for one again after a minute', async () => {
  const { world, reading } = reads({ window: 5 }, 'full');
  world.node('full').refusesStreams = 'rate_limited';
  await reading.moveHead(103, 1_000);
  expect(reading.available()).toEqual([101, 102, 103]);
  expect(world.nodes.faults()).toEqual([]);
  expect(world.node('full').count('SubscribeBlocksFromStartHeight')).toBe(1);
  world.node('full').refusesStreams = undefined;
  await world.clock.advance(60_000);
  await reading.moveHead(105);
  expect(reading.available()).toEqual(range(101, 105));
  expect(world.node('full').openStreams).toBe(1);
});

it('lets an unknown error reach its owner', async () => {
  const { world, reading } = reads({ window: 4 }, 'a');
  world.node('a').subscribeBlocks = () => {
    throw new TypeError('a bug');
  };
  await reading.moveHead(104);
  await expect(world.end()).rejects.toThrow('a bug');
});
