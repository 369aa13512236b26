import { expect, it } from 'vitest';
import { follows, World } from './bench.js';

it('tells each rise of the sealed head, when it has risen', async () => {
  const world = new World('a');
  const listener = world.listener(100, 90);
  const told: (number | undefined)[] = [];
  const end = listener.sealed.onRise(() => told.push(listener.sealed.height));
  await world.clock.settle();
  world.advance(103, 92);
  await world.clock.settle();
  world.advance(104, 92);
  await world.clock.settle();
  end();
  world.advance(105, 95);
  await world.clock.settle();
  expect(told).toEqual([90, 91, 92]);
});

it('forgets what a node of another chain told, and follows those of ours', async () => {
  const { world, listener } = await follows(100, 1_000, 'astray', 'b');
  world.node('astray').advance(900, 900);
  await world.clock.advance(1_000);
  expect(listener.finalized.height).toBe(900);
  const [, ours] = world.nodes.all;
  world.nodes.live = () => [ours!];
  listener.forget('b', 98);
  expect([listener.finalized.height, listener.sealed.height]).toEqual([900, 900]);
  listener.forget('astray', 98);
  expect([listener.finalized.height, listener.sealed.height]).toEqual([98, 98]);
  world.node('astray').advance(901, 901);
  world.node('b').advance(101, 101);
  await world.clock.advance(5_000);
  expect([listener.finalized.height, listener.sealed.height]).toEqual([101, 101]);
});

it.each([
  { names: ['astray', 'b'], indexed: 100, left: 150 },
  { names: ['astray'], indexed: 500, left: 500 },
  // What was indexed was there: its node is restored.
  { names: ['astray'], indexed: 890, left: 901 },
])('forgets after a minute a head that one node told and took back: $names, $indexed', async (given) => {
  const { names, indexed, left } = given;
  const { world, listener } = await follows(100, 1_000, ...names);
  world.indexed = indexed;
  // One more word for it, and the minute begins anew.
  for (const [told, seconds] of [
    [900, 40],
    [901, 50],
    [901, 70],
  ] as const) {
    world.node('astray').advance(told, told);
    await world.clock.advance(3_000);
    expect([listener.finalized.height, listener.sealed.height]).toEqual([told, told]);
    world.advance(150, 150);
    await world.clock.advance(seconds * 1_000);
  }
  expect([listener.finalized.height, listener.sealed.height]).toEqual([left, left]);
});

it('counts for ten minutes no more than the others a node that alone told a head far above, which they never reached', async () => {
  const { world, listener } = await follows(100, 1_000, 'astray', 'b', 'c');
  const { world: honest } = await follows(100, 1_000, 'b', 'c', 'astray');
  const goesOn = async (to: number, isIndexed = true): Promise<unknown> => {
    for (let height = world.node('b').finalized + 1; height <= to; height += 1)
      for (const each of [honest, world]) {
        each.advance(height, height - 5);
        each.node('astray').advance(height + 900, height + 895);
        if (isIndexed) each.indexed = height;
        await each.clock.advance(1_000);
      }
    return [listener.finalized.height, (listener.sealed.height ?? 0) <= to - 5];
  };
  // While blocks do not come, or are caught up with, that may be the chain's head.
  expect(await goesOn(200, false)).toEqual([1_100, false]);
  expect(await goesOn(255)).toEqual([1_155, false]);
  for (const height of [265, 300, 700]) expect(await goesOn(height)).toEqual([height, true]);
  expect(await goesOn(900)).toEqual([1_800, false]);
  expect(honest.nodes.reported).toEqual([]);
});

it('forgets what is on its way through a stream as well', async () => {
  for (let turns = 0; turns < 16; turns += 1) {
    const { world, listener } = await follows(100, 1_000, 'astray', 'b');
    world.nodes.live = () => [world.node('b')];
    world.node('astray').advance(101, 101);
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    listener.forget('astray', 98);
    await world.clock.advance(10);
    expect([listener.finalized.height, turns]).toEqual([100, turns]);
  }
});

it('gives the first head as soon as there is one, and stops waiting when told', async () => {
  const world = new World('a');
  world.node('a').down = true;
  const listener = world.listener(7, 7);
  const stop = new AbortController();
  const given = expect(listener.firstHead(stop.signal)).rejects.toThrow();
  const first = listener.firstHead(world.stop.signal);
  await world.clock.advance(1_000);
  stop.abort();
  await given;
  world.node('a').down = false;
  await world.clock.advance(20_000);
  await expect(first).resolves.toBe(7);
  await expect(listener.firstHead(world.stop.signal)).resolves.toBe(7);
});

it.each([
  { names: ['astray', 'b'], corrected: 9_000 },
  { names: ['astray'], corrected: 100 },
])('gives no first head that no node has the block of: $names', async ({ names, corrected }) => {
  const { world, listener } = await follows(100, 0, ...names);
  const astray = world.node('astray');
  astray.polledHead = () => 9_000;
  await world.clock.advance(4_000);
  const first = listener.firstHead(world.stop.signal);
  await world.clock.advance(3_000);
  expect(listener.lacked()).toMatchObject({ height: 9_000, troubles: names.map(() => ({ kind: 'denied' })) });
  astray.polledHead = () => corrected;
  await world.clock.advance(10_000);
  await expect(first).resolves.toBe(100);
});

it('takes no head for sealed that is far above what its node calls finalized', async () => {
  const world = new World('astray', 'b');
  world.node('astray').unknown.add(stream);
  const listener = world.listener(100, 90);
  for (let height = 5_000; height < 5_010; height += 1) {
    world.node('astray').advance(101, height);
    await world.clock.advance(1_000);
  }
  expect([listener.finalized.height, listener.sealed.height]).toEqual([101, 101]);
});

it('opens a silent stream again within 10 s while the polled head moves', async () => {
  const { world, listener } = await follows(100, 0, 'a', 'b');
  world.node('a').silent = true;
  let height = 100;
  const tookMs = await world.clock.advanceUntil(() => {
    height = 100 + Math.floor(world.clock.monotonic() / 1_000);
    for (const node of world.nodes.all) [node.finalized, node.sealed] = [height, height];
    return world.node('b').openStreams === 2;
  });
  expect(tookMs).toBeLessThanOrEqual(10_000);
  world.advance(height + 5, height + 5);
  await world.clock.settle();
  expect(listener.finalized.height).toBe(height + 5);
  expect(world.streamReopens.counts).toEqual({ 'finalized stale': 1, 'sealed stale': 1 });
  expect(world.nodes.faults()).toEqual(['a stale', 'a stale']);
});

it('opens a stream again that delivers, but slower than the chain moves', async () => {
  const { world, listener } = await follows(100, 0, 'a', 'b');
  // The stream of a gets one block in two seconds, its unary calls and b know five in two seconds.
  const slow = world.node('a');
  for (let second = 1; world.streamReopens.counts['finalized stale'] === undefined; second += 1) {
    expect(second).toBeLessThanOrEqual(60);
    const [real, streamed] = [100 + Math.floor(2.5 * second), 100 + Math.floor(second / 2)];
    slow.polledHead = () => real;
    slow.advance(streamed, streamed);
    world.node('b').advance(real, streamed);
    await world.clock.advance(1_000);
  }
  expect(world.streamReopens.counts).toEqual({ 'finalized stale': 1 });
  await world.clock.advance(1_000);
  expect(world.node('b').openStreams).toBe(1);
  expect(listener.finalized.height).toBe(world.node('b').finalized);
});

it('takes a chain that stands still for what it is', async () => {
  const { world, listener } = await follows(95, 3_600_000, 'a');
  expect(world.streamReopens.counts).toEqual({});
  expect(world.nodes.faults()).toEqual([]);
  expect(listener.finalized.answerAgeMs()).toBeLessThanOrEqual(4_000);
  expect(listener.finalized.advanceAgeMs()).toBeGreaterThanOrEqual(3_595_000);
  // The first block after the pause, seen by a poll a moment before the stream delivers it, is no alarm either.
  world.node('a').polledHead = () => 101;
  await world.clock.advance(3_000);
  world.advance(101, 95);
  await world.clock.advance(20_000);
  expect(world.streamReopens.counts).toEqual({});
  expect(listener.finalized.height).toBe(101);
});

it('goes elsewhere when a node has no stream to spare, and reports nobody', async () => {
  const world = new World('full', 'b');
  world.node('full').refusesStreams = 'rate_limited';
  world.listener(100, 100);
  await world.clock.advance(400);
  expect(world.node('b').openStreams).toBe(2);
  expect(world.nodes.faults()).toEqual([]);
});

it('takes the head from whichever polled node moves', async () => {
  const world = new World('stuck', 'b');
  for (const node of world.nodes.all) node.unknown.add('SubscribeBlockDigestsFromLatest');
  const listener = world.listener(100, 100);
  await world.clock.advance(2_000);
  expect(listener.finalized.advanceAgeMs()).toBe(2_000);
  expect(listener.finalized.answerAgeMs()).toBeLessThanOrEqual(1_000);
  world.node('b').advance(110, 110);
  await world.clock.advance(2_000);
  expect(listener.finalized.height).toBe(110);
  expect(listener.finalized.advanceAgeMs()).toBeLessThanOrEqual(2_000);
  // A node without the call takes no turn from the others.
  world.node('stuck').unknown.add('GetLatestBlockHeader');
  const asked = () => world.node('stuck').count('GetLatestBlockHeader');
  await world.clock.advance(2_000);
  const before = asked();
  await world.clock.advance(10_000);
  expect(asked()).toBe(before);
});

const stream = 'SubscribeBlockDigestsFromLatest';
const lost = 'streams fail, using single calls instead';

it('where a way fails: knows the head by polls where streams are silent from the start, and tells it once', async () => {
  const world = new World('a');
  world.node('a').silent = true;
  const listener = world.listener(100, 90);
  await world.clock.advance(3_000);
  expect(listener.finalized.height).toBe(100);
  await world.clock.advance(60_000);
  expect(listener.finalized.troubles()).toEqual([]);
  expect(world.logger.of('warn').map(({ message }) => message)).toEqual([lost, lost]);
  world.node('a').silent = false;
  world.node('a').poke();
  await world.clock.advance(130_000);
  expect(world.node('a').openStreams).toBe(2);
});

it('where a way fails: reports a stream that ends without a head', async () => {
  const world = new World('a');
  const node = world.node('a');
  node.subscribeBlockDigests = async function* () {
    node.calls.push({ method: stream, height: undefined });
    yield* [];
    await Promise.resolve();
  };
  world.listener(100, 90);
  await world.clock.advance(20_000);
  expect(world.nodes.faults()).toContain('a failing');
  // Two of each head, and polls for ten seconds then.
  expect(node.count(stream)).toBeLessThanOrEqual(8);
});

it('where a way fails: names what stands between us and each head, until a node tells it', async () => {
  const world = new World('a', 'b');
  for (const node of world.nodes.all) node.down = true;
  const listener = world.listener(100, 90);
  await world.clock.advance(8_000);
  for (const troubles of [listener.finalized.troubles(), listener.sealed.troubles()]) {
    expect(new Set(troubles.map(({ node }) => node))).toEqual(new Set(['a', 'b']));
    expect(troubles.every(({ kind, count }) => kind === 'unreachable' && count > 0)).toBe(true);
  }
  let again = 0;
  listener.onAnswerAgain(() => (again += 1));
  for (const node of world.nodes.all) node.down = false;
  listener.wake();
  await world.clock.settle();
  expect([listener.finalized.troubles(), listener.sealed.troubles()]).toEqual([[], []]);
  expect(again).toBe(2);
  expect(listener.finalized.height).toBe(100);
});

it('where a way fails: knows how old the word on each head is, the one apart from the other', async () => {
  const world = new World('a');
  const listener = world.listener(100, 90);
  expect(listener.sealed.advanceAgeMs()).toBeUndefined();
  await world.clock.advance(10_000);
  expect(listener.sealed.advanceAgeMs()).toBe(10_000);
  const node = world.node('a');
  const header = node.getLatestBlockHeader.bind(node);
  world.node('a').silent = true;
  // Only the sealed head is told from here on.
  world.node('a').getLatestBlockHeader = (sealed) =>
    sealed ? header(sealed) : Promise.reject(world.node('a').error('internal', 'GetLatestBlockHeader'));
  await world.clock.advance(20_000);
  expect(listener.finalized.answerAgeMs()).toBeGreaterThanOrEqual(18_000);
  expect(listener.finalized.troubles()).not.toEqual([]);
});

it('lets an unknown error reach its owner', async () => {
  const world = new World('a');
  const listener = world.listener(100, 100);
  listener.finalized.onRise(() => {
    throw new TypeError('a bug');
  });
  await world.clock.settle();
  await expect(world.end()).rejects.toThrow('a bug');
});
