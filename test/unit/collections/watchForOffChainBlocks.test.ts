import { expect, it, onTestFinished } from 'vitest';
import { MissingCollectionQueue, watchForOffChainBlocks } from '../../../src/collections/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { VirtualClock, windowOf } from '../../support/index.js';
import { block, id } from './meetingHarness.js';
import { FakeNode } from './sourceHarness.js';

const GIVER = 'a:9000';

/** A watch over heights 1 and 2, each of which lacks one collection; `notFound` is what the requester met. */
function watching(answersOf: (held: FinalizedBlock) => Readonly<Record<string, FinalizedBlock>>) {
  const clock = new VirtualClock();
  const window = windowOf(Infinity, { heights: 8 });
  const mcq = new MissingCollectionQueue(window);
  const asked: { readonly height: number; readonly atMs: number }[] = [];
  const offChain: number[] = [];
  for (const height of [1, 2]) {
    const held = block(height, [`of ${height}`]);
    window.link(held, { name: GIVER, method: 'SubscribeBlocksFromStartHeight' });
    mcq.enqueueMissingCollections(held, 0, () => undefined);
    for (const wanted of mcq.missing(height)) wanted.isAskedFor = true;
  }
  const notFound = (height: number, times: number): void => {
    for (const wanted of mcq.missing(height)) wanted.notFound = times;
  };
  const stop = new AbortController();
  const running = watchForOffChainBlocks(
    {
      ...{ mcq, clock },
      ask: (height) => {
        asked.push({ height, atMs: clock.monotonic() });
        const answers = Object.entries(answersOf(mcq.get(height)!.block));
        return Promise.resolve(
          answers.map(([name, each]) => ({ node: new FakeNode(name, clock), block: each })),
        );
      },
      onOffChain: ({ height }) => offChain.push(height),
    },
    stop.signal,
  );
  onTestFinished(async () => {
    stop.abort();
    await running;
    expect(clock.pendingTimers).toBe(0);
  });
  return { clock, notFound, asked, offChain };
}

const regiven = (held: FinalizedBlock): FinalizedBlock => ({ ...held, collectionIds: [id('given')] });
const proven = (held: FinalizedBlock): FinalizedBlock => ({ ...regiven(held), proof: Buffer.of(1) });
const another = (held: FinalizedBlock): FinalizedBlock => ({ ...held, id: id('another block') });

it('leaves a block alone whose collections are only late, however old it is', async () => {
  const { asked, clock, notFound } = watching(() => ({}));
  notFound(1, 2);
  notFound(2, 9);
  await clock.advance(600_000);
  expect(asked).toEqual([]);
});

it('asks about the lowest block whose collection no node has: not at once, and ever more slowly', async () => {
  const { asked, clock, notFound, offChain } = watching((held) => ({ 'a:9000': held, 'b:9000': held }));
  notFound(1, 3);
  await clock.advance(4_000);
  expect(asked).toEqual([]);
  await clock.advance(60_000);
  expect(new Set(asked.map(({ height }) => height))).toEqual(new Set([1]));
  const pauses = asked.slice(1).map(({ atMs }, index) => atMs - (asked[index]?.atMs ?? 0));
  expect(pauses).toEqual([...pauses].sort((left, right) => left - right));
  expect(pauses.at(-1)).toBeLessThanOrEqual(31_000);
  expect(offChain).toEqual([]);
});

it.each<[string, Readonly<Record<string, (held: FinalizedBlock) => FinalizedBlock>>, boolean]>([
  ['its blockSource has another one now', { 'a:9000': another }, true],
  ['its blockSource has other guarantees in it now', { 'a:9000': regiven }, true],
  ['others have the same other guarantees in it', { 'b:9000': regiven, 'c:9000': regiven }, true],
  ['one other proves other guarantees in it', { 'b:9000': proven, 'c:9000': (held) => held }, true],
  ['one other has other guarantees in it', { 'b:9000': regiven }, false],
  ['two others have the same other one', { 'b:9000': another, 'c:9000': another }, true],
  ['one other has another one', { 'b:9000': another }, false],
  ['the nodes are divided', { 'b:9000': another, 'c:9000': (held) => held }, false],
  ['nobody answers', {}, false],
])('where %s', async (_, nodes, isRefuted) => {
  const { clock, notFound, offChain } = watching((held) =>
    Object.fromEntries(Object.entries(nodes).map(([name, answer]) => [name, answer(held)])),
  );
  notFound(1, 3);
  await clock.advance(6_500);
  expect(offChain).toEqual(isRefuted ? [1] : []);
});
