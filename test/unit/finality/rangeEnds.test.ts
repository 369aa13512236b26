import { describe, expect, it } from 'vitest';
import { range, Reading, reads, World } from './bench.js';

const NOTHING = { below: false, above: false };

describe('the last block of a range whose upper neighbour is not indexed', () => {
  const above = { window: 10, stopHeight: 104, neighbours: { ...NOTHING, above: true } };

  it('is taken back where its child names another one', async () => {
    const { world, reading } = reads(above, 'a');
    const fork = world.chain.fork('fork', 104);
    world.gives('a', fork.block(104));
    world.node('a').odd.set(105, 'hang');
    await reading.moveHead(200);
    expect(reading.available()).toEqual(range(101, 103));
    world.node('a').odd.clear();
    await world.clock.advance(60_000);
    expect(reading.available()).toEqual(range(101, 104));
    expect(reading.blocks.blockAt(104)?.id).toBe(world.chain.idAt(104));
    expect(reading.replaced).toEqual([]);
    expect(world.node('a').taken).not.toContain(106);
  });

  it('does not wait for a child that nobody has, and says who owes one', async () => {
    const { world, reading } = reads(above, 'a');
    world.nodes.serving = (_node, height) => height <= 104;
    await reading.moveHead(200);
    expect(reading.available()).toEqual(range(101, 103));
    await world.clock.advance(60_000);
    expect(reading.available()).toEqual(range(101, 104));
    const { world: owing, reading: waiting } = reads(above, 'a');
    owing.node('a').odd.set(105, 'malformed');
    await waiting.moveHead(200, 5_000);
    expect(waiting.blocks.heldUpBy()).toMatchObject({ height: 105, troubles: [{ node: 'a' }] });
  });
});

describe('the first block of a range whose lower neighbour is not indexed', () => {
  const below = { window: 10, stopHeight: 104, empty: true, neighbours: { ...NOTHING, below: true } };

  it('is read once the block below is known, and must name that as its parent', async () => {
    const { world, reading } = reads(below, 'a');
    const lie = world.chain.fork('lie', 99).block(101);
    world.node('a').odd.set(100, 'unavailable');
    world.gives('a', lie);
    await reading.moveHead(200, 60_000);
    expect(reading.linked()).toEqual([]);
    expect(reading.blocks.heldUpBy()).toMatchObject({ height: 100, troubles: [{ node: 'a' }] });
    world.node('a').odd.delete(100);
    await world.clock.advance(5_000);
    expect(reading.linked()).toEqual([]);
    expect(reading.blocks.heldUpBy()).toMatchObject({ height: 101 });
    world.node('a').odd.delete(101);
    await world.clock.advance(60_000);
    expect(reading.available()).toEqual(range(101, 104));
  });

  it('waits where no node serves the range itself yet, and says so', async () => {
    const world = new World('a');
    world.gives('a', world.chain.fork('lie', 99).block(101));
    world.nodes.serving = () => false;
    const reading = new Reading(world, below);
    await reading.moveHead(200, 10_000);
    expect(reading.blocks.heldUpBy()).toMatchObject({ height: 100, isUnserved: true });
    world.nodes.serving = () => true;
    await world.clock.advance(5_000);
    expect(reading.linked()).toEqual([]);
  });

  it('blames nobody where as many nodes give one block below as another', async () => {
    const { world, reading } = reads(below, 'liar', 'honest');
    const liar = world.node('liar');
    liar.chain = world.chain.fork('lie', 99);
    // It is the first to be asked of the block below, and has no stream.
    liar.says = (method, height) =>
      method === 'SubscribeBlocksFromStartHeight' && height > 100 ? 'unavailable' : undefined;
    await reading.moveHead(200, 1_000);
    expect(world.nodes.faults()).not.toContain('honest lied');
  });

  it('waits for a block that a node gives without calling it final, and says so', async () => {
    const { world, reading } = reads(below, 'a');
    world.node('a').odd.set(100, { block: world.chain.block(100), status: 'unknown' });
    await reading.moveHead(200, 60_000);
    expect(reading.linked()).toEqual([]);
    const given = { node: 'a', said: 'gives no finalized block 100' };
    expect(reading.blocks.heldUpBy()?.troubles).toMatchObject([given]);
  });

  it.each([
    ['the nodes say that they do not have', (world: World) => void world.node('a').odd.set(100, 'not_found')],
    ['no node serves', (world: World) => void (world.nodes.serving = (_node, height) => height > 100)],
  ])('does not wait for a block that %s', async (_what, prepare) => {
    const world = new World('a');
    prepare(world);
    const reading = new Reading(world, below);
    await reading.moveHead(200);
    expect(reading.linked()).toEqual([]);
    await world.clock.advance(5_000);
    expect(reading.available()).toEqual(range(101, 104));
  });
});
