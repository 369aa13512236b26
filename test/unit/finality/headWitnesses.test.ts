import { describe, expect, it } from 'vitest';
import { followWitnesses } from '../../../src/finality/index.js';
import type { ReportedHead } from '../../../src/finality/ports.js';
import { World } from './bench.js';

/** Whoever is the source, and what the others report. */
function witnessing(world: World, source: string | undefined) {
  const told: ReportedHead[] = [];
  const state = { source };
  const { clock, nodes } = world;
  const parts = { nodes, clock, source: () => state.source, onHead: (head: ReportedHead) => told.push(head) };
  world.run({ run: (signal) => followWitnesses(parts, signal) });
  return { told, state };
}

const openAt = (world: World): string[] =>
  world.nodes.all.filter(({ openStreams }) => openStreams > 0).map(({ name }) => name);

describe('witnesses of the head', () => {
  it('follows two nodes beside the source, and tells what they report', async () => {
    const world = new World('a', 'b', 'c', 'd');
    world.advance(100, 100);
    const { told } = witnessing(world, 'a');
    await world.clock.settle();
    expect(openAt(world)).toEqual(['b', 'c']);
    world.node('c').chain = world.chain.fork('other', 101);
    world.advance(101);
    await world.clock.settle();
    expect(told.filter(({ height }) => height === 101)).toEqual([
      { height: 101, id: world.chain.idAt(101), node: 'b' },
      { height: 101, id: world.node('c').chain.idAt(101), node: 'c' },
    ]);
  });

  it('waits for a source, and leaves the node alone that becomes one', async () => {
    const world = new World('a', 'b');
    const { state } = witnessing(world, undefined);
    await world.clock.advance(5_000);
    expect(openAt(world)).toEqual([]);
    state.source = 'a';
    await world.clock.advance(1_000);
    expect(openAt(world)).toEqual(['b']);
    state.source = 'b';
    await world.clock.advance(1_000);
    expect(openAt(world)).toEqual(['a']);
  });

  it('leaves a node alone for half a minute that ends, refuses or lacks the stream, and holds it against no one', async () => {
    const world = new World('a', 'b');
    world.node('b').refusesStreams = 'rate_limited';
    const { told } = witnessing(world, 'a');
    await world.clock.advance(29_000);
    expect(world.node('b').count('SubscribeBlockDigestsFromLatest')).toBe(1);
    world.node('b').refusesStreams = undefined;
    await world.clock.advance(2_000);
    expect(openAt(world)).toEqual(['b']);
    world.node('b').down = true;
    world.node('b').poke();
    await world.clock.advance(5_000);
    expect(openAt(world)).toEqual([]);
    world.node('b').down = false;
    world.node('b').unknown.add('SubscribeBlockDigestsFromLatest');
    await world.clock.advance(120_000);
    expect(world.node('b').count('SubscribeBlockDigestsFromLatest')).toBe(2);
    expect(world.nodes.reported).toEqual([]);
    expect(told.every(({ node }) => node === 'b')).toBe(true);
  });

  it('opens a stream again that has been silent for a minute', async () => {
    const world = new World('a', 'b');
    world.advance(100, 100);
    witnessing(world, 'a');
    await world.clock.advance(50_000);
    expect(world.node('b').count('SubscribeBlockDigestsFromLatest')).toBe(1);
    await world.clock.advance(60_000);
    expect(world.node('b').count('SubscribeBlockDigestsFromLatest')).toBe(2);
  });
});
