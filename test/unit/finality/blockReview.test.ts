import { describe, expect, it } from 'vitest';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { sha3, toIdentifier } from '../../../src/flow/index.js';
import type { FakeAccessNode } from '../../support/fakeAccessNodes.js';
import { range, Reading, World } from './bench.js';

const HEIGHT = 103;

/** The chain's own block with a guarantee of this name instead of its own. */
function forged(world: World, name = 'forged'): FinalizedBlock {
  return { ...world.chain.block(HEIGHT), collectionIds: [toIdentifier(sha3(Buffer.from(name)))] };
}

/** As real nodes do: each question listens for its end while it is under way. */
function listening(...nodes: readonly FakeAccessNode[]): void {
  for (const node of nodes) {
    const ask = node.getBlockByHeight.bind(node);
    node.getBlockByHeight = async (height, options) => {
      const onAbort = (): void => undefined;
      options?.signal?.addEventListener('abort', onAbort);
      try {
        return await ask(height, options);
      } finally {
        options?.signal?.removeEventListener('abort', onAbort);
      }
    };
  }
}

/** A world in which these nodes forge the guarantees of one height, and the first node's blocks were read. */
async function begin(names: readonly string[], liars: Readonly<Record<string, string>>) {
  const world = new World(...names);
  // A block of the fake chain has no collections; one that has them is what a list is proven by.
  for (const name of names)
    world.node(name).odd.set(HEIGHT, { block: forged(world, liars[name] ?? 'true'), status: 'finalized' });
  const reading = new Reading(world, { window: 10 });
  await reading.moveHead(110);
  const review = () => reading.review.review(HEIGHT, world.stop.signal);
  const held = () => reading.blocks.blockAt(HEIGHT)?.collectionIds;
  return { world, reading, review, held, truth: forged(world, 'true').collectionIds };
}

describe('a block whose guarantees are in doubt', () => {
  it('gets those that most nodes give, and the liar is set aside once they are proven', async () => {
    const { world, reading, review, held, truth } = await begin(['liar', 'a', 'b'], { liar: 'forged' });
    expect(held()).not.toEqual(truth);
    expect(await review()).toMatchObject({ kind: 'exchanged', giver: 'a' });
    expect(reading.exchanged).toEqual([{ height: HEIGHT, ids: truth }]);
    expect(held()).toEqual(truth);
    expect(reading.blocks.atIndex(HEIGHT)?.block.collectionIds).toEqual(truth);
    expect(world.nodes.faults()).toEqual([]);
    await reading.makeDurable(HEIGHT);
    expect(world.nodes.faults()).toEqual(['liar lied']);
    expect(world.invalidBlocks.counts).toEqual({ forged_guarantees: 1 });
    await world.end();
  });

  it('tries each list in turn where the nodes are divided, and reports whoever was wrong in the end', async () => {
    const { world, reading, review, held, truth } = await begin(['a', 'liar'], { liar: 'forged' });
    expect(held()).toEqual(truth);
    expect(await review()).toMatchObject({ kind: 'exchanged', giver: 'liar' });
    expect(await review()).toMatchObject({ kind: 'exchanged', giver: 'a' });
    expect(held()).toEqual(truth);
    await reading.makeDurable(HEIGHT);
    expect(world.nodes.faults()).toEqual(['liar lied']);
    await world.end();
  });

  it('is refuted when no node has it any more: parent links would not show it in a full window', async () => {
    const { world, reading, review } = await begin(['foreign', 'a'], {});
    const other: FinalizedBlock = { ...forged(world, 'true'), id: toIdentifier(sha3(Buffer.from('other'))) };
    world.node('a').odd.set(HEIGHT, { block: other, status: 'finalized' });
    world.node('foreign').odd.set(HEIGHT, 'unavailable');
    // One node against one that cannot be heard.
    expect(await review()).toMatchObject({ kind: 'alone' });
    expect(reading.refuted).toEqual([]);
    world.node('foreign').odd.set(HEIGHT, { block: other, status: 'finalized' });
    expect(await review()).toMatchObject({ kind: 'gone' });
    expect(reading.refuted).toEqual([HEIGHT]);
    await world.end();
  });

  it('keeps those that most nodes give, however long their collections do not come', async () => {
    const { world, reading, review, held, truth } = await begin(['a', 'b', 'liar'], { liar: 'forged' });
    for (let round = 0; round < 3; round += 1)
      expect(await review()).toEqual({ kind: 'upheld', giver: 'a', confirmedBy: 1 });
    expect(held()).toEqual(truth);
    expect(reading.exchanged).toEqual([]);
    await world.end();
  });

  it('keeps what it has when nobody else can be asked, and reports nobody', async () => {
    const { world, reading, review } = await begin(['liar'], { liar: 'forged' });
    expect(await review()).toEqual({ kind: 'alone', giver: 'liar', confirmedBy: 0 });
    expect([reading.exchanged, world.nodes.faults()]).toEqual([[], []]);
    await world.end();
  });

  it('believes a single node that corrects itself', async () => {
    const { world, reading, review, held, truth } = await begin(['liar'], { liar: 'forged' });
    world.node('liar').odd.set(HEIGHT, { block: forged(world, 'true'), status: 'finalized' });
    expect(await review()).toMatchObject({ kind: 'exchanged', giver: 'liar' });
    expect(held()).toEqual(truth);
    await reading.makeDurable(HEIGHT);
    expect(world.nodes.faults()).toEqual(['liar lied']);
    await world.end();
  });

  it('gets those of the single call where the one node forges its stream, which is left then', async () => {
    const { world, reading, review, held, truth } = await begin(['liar'], { liar: 'forged' });
    world.node('liar').odd.set(HEIGHT, { block: forged(world, 'true'), status: 'finalized' });
    await review();
    expect(held()).toEqual(truth);
    await reading.makeDurable(HEIGHT);
    const { length } = world.node('liar').calls;
    await reading.moveHead(120);
    const later = world.node('liar').calls.slice(length);
    expect(later.length).toBeGreaterThan(0);
    expect(new Set(later.map(({ method }) => method))).toEqual(new Set(['GetBlockByHeight']));
    await world.end();
  });

  it('has both lists of a single node tried in turn, whichever call forges', async () => {
    const { world, review, held, truth } = await begin(['liar'], { liar: 'true' });
    world.node('liar').odd.set(HEIGHT, { block: forged(world), status: 'finalized' });
    await review();
    expect(held()).not.toEqual(truth);
    await review();
    expect(held()).toEqual(truth);
    await world.end();
  });

  it('is left as it is when it was completed meanwhile', async () => {
    const { world, reading, review, held } = await begin(['liar', 'a', 'b'], { liar: 'forged' });
    const before = held();
    reading.mayExchange = false;
    await review();
    expect(held()).toEqual(before);
    await reading.makeDurable(HEIGHT);
    expect(await review()).toMatchObject({ kind: 'gone' });
    await world.end();
  });

  it('is not decided by blocks with another id', async () => {
    const { world, reading, review } = await begin(['a', 'b', 'c'], {});
    for (const name of ['b', 'c'])
      world
        .node(name)
        .odd.set(HEIGHT, { block: world.chain.fork('fork', HEIGHT).block(HEIGHT), status: 'finalized' });
    expect(await review()).toMatchObject({ kind: 'alone', giver: 'a' });
    expect([reading.exchanged, world.nodes.faults()]).toEqual([[], []]);
    await world.end();
  });

  it('is asked for again at once where whoever gave it was found to forge another, which is not read on', async () => {
    const world = new World('liar', 'a');
    const warned: Error[] = [];
    const onWarning = (warning: Error): unknown => warned.push(warning);
    process.on('warning', onWarning);
    listening(world.node('liar'), world.node('a'));
    for (let height = 101; height <= 120; height += 1) {
      const { collectionIds: _none, ...block } = world.chain.block(height);
      const withList = (name: string) => ({
        block: { ...block, collectionIds: [toIdentifier(sha3(Buffer.from(`${name} ${height}`)))] },
        status: 'finalized' as const,
      });
      world.node('liar').odd.set(height, withList('forged'));
      world.node('a').odd.set(height, withList('true'));
    }
    const reading = new Reading(world, { window: 10 });
    const truth = (height: number) => [toIdentifier(sha3(Buffer.from(`true ${height}`)))];
    await reading.moveHead(200);
    expect(reading.blocks.blockAt(110)?.collectionIds).not.toEqual(truth(110));
    await reading.review.review(101, world.stop.signal);
    expect(reading.exchanged.map(({ height }) => height)).toEqual([101]);
    await reading.makeDurable(101);
    expect(reading.exchanged.map(({ height }) => height)).toEqual(range(101, 110));
    expect(range(102, 111).map((height) => reading.blocks.blockAt(height)?.collectionIds)).toEqual(
      range(102, 111).map(truth),
    );
    await world.end();
    process.off('warning', onWarning);
    // Of a leak there is none: these are questions under way.
    expect(warned).toEqual([]);
  });
});
