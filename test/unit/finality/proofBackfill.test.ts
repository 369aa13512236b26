import { expect, it } from 'vitest';
import { proofBackfill } from '../../../src/finality/index.js';
import { joined, type FoundDamage } from '../../../src/storage/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { range, World } from './bench.js';

const HEIGHTS = 100;
const TEN_MINUTES_MS = 600_000;
const proof = Buffer.from('proof');

/** Blocks 0 to 99 without proofs, and nodes whose blocks have one. */
class Backfill extends World {
  readonly stored = new Map<number, FinalizedBlock>();
  readonly added: number[] = [];
  readonly backfill: ReturnType<typeof proofBackfill>;
  mayRun = true;
  told = 0;
  readonly damages: FoundDamage[] = [];
  share = 1;

  constructor(...names: string[]) {
    super(...names);
    for (const height of range(0, HEIGHTS - 1)) this.stored.set(height, this.chain.block(height));
    this.advance(HEIGHTS - 1);
    for (const { name } of this.nodes.all) this.proves(0, HEIGHTS - 1, name);
    this.backfill = proofBackfill({
      ...{ clock: this.clock, logger: this.logger, nodes: this.nodes },
      mayRun: () => this.mayRun,
      share: () => this.share,
      onProven: () => (this.told += 1),
      onDamage: (damage) => this.damages.push(damage),
      store: {
        blockByHeight: (height) => {
          const block = this.stored.get(height);
          return Promise.resolve(block && { block, transactionCounts: [] });
        },
        unproven: () => joined(this.open().map((height) => ({ from: height, to: height }))),
        addProofs: (blocks) => {
          for (const block of blocks) this.stored.set(block.height, block);
          this.added.push(...blocks.map(({ height }) => height));
          return Promise.resolve();
        },
      },
    });
    this.run(this.backfill);
  }

  get left(): number {
    return HEIGHTS - this.added.length;
  }

  open(): number[] {
    return [...this.stored.values()].flatMap((block) => (block.proof === undefined ? [block.height] : []));
  }

  /** These heights of a node come without what proves them. */
  lacks(from: number, to: number): void {
    for (const height of range(from, to)) this.node('a').odd.delete(height);
  }

  proves(from: number, to: number, name = 'a'): void {
    for (const height of range(from, to))
      this.node(name).odd.set(height, { block: { ...this.chain.block(height), proof }, status: 'sealed' });
  }
}

it('proves the newest first, few at once, until none is left', async () => {
  const run = new Backfill('a');
  await run.clock.advance(5_000);
  expect(run.added).toEqual(range(0, HEIGHTS - 1).toReversed());
  expect(run.node('a').mostCallsUnderWay).toBeLessThanOrEqual(16);
  expect(run.backfill.reason()).toBeUndefined();
  expect(run.node('a').calls).toHaveLength(HEIGHTS);
  expect(run.told).toBeGreaterThan(1);
  expect(run.told).toBeLessThanOrEqual(HEIGHTS);
});

it('waits while it may not run, and is slower with a smaller share', async () => {
  const run = new Backfill('a');
  run.mayRun = false;
  await run.clock.advance(5_000);
  const before = run.added.length;
  await run.clock.advance(60_000);
  expect(run.added).toHaveLength(before);
  run.mayRun = true;
  run.share = 1 / 1024;
  await run.clock.advance(10_000);
  expect(run.added.length - before).toBeLessThanOrEqual(16);
  run.share = 1;
  await run.clock.advance(60_000);
  expect(run.left).toBe(0);
});

it('proves what lies below heights that no node can prove, says so once, and tries those again later', async () => {
  const run = new Backfill('a');
  run.lacks(60, 80);
  await run.clock.advance(10_000);
  expect(run.open()).toEqual(expect.arrayContaining(range(60, 80)));
  expect(run.stored.get(99)?.proof).toBeDefined();
  expect(run.stored.get(0)?.proof).toBeDefined();
  expect(run.backfill.reason()).toMatch(/some stored blocks are not proven: block \d+ cannot be proven/);
  const asked = run.node('a').calls.length;
  await run.clock.advance(TEN_MINUTES_MS / 2);
  expect(run.node('a').calls).toHaveLength(asked);
  run.proves(60, 80);
  await run.clock.advance(TEN_MINUTES_MS);
  expect(run.left).toBe(0);
  expect(run.backfill.reason()).toBeUndefined();
  expect(run.logger.messages()).toEqual(['some stored blocks cannot be proven']);
});

it('asks again when every node failed, and loses nothing', async () => {
  const run = new Backfill('a');
  run.node('a').down = true;
  await run.clock.advance(40_000);
  expect(run.added).toEqual([]);
  expect(run.backfill.reason()).toContain('some stored blocks are not proven');
  expect(run.node('a').calls.length).toBeLessThanOrEqual(4 * 16);
  run.node('a').down = false;
  run.share = 1 / 1024;
  await run.clock.advance(16_000);
  // What is over is no reason for the others.
  expect([run.left > 0, run.added.length > 0, run.backfill.reason()]).toEqual([true, true, undefined]);
  run.share = 1;
  await run.clock.advance(30_000);
  expect(run.left).toBe(0);
});

it('takes the proof from any node, whatever the others lack, and asks again within a minute where all fail', async () => {
  const two = new Backfill('a', 'b');
  two.lacks(0, HEIGHTS - 1);
  for (let height = 0; height < 50; height++) two.node('a').odd.set(height, 'unavailable');
  await two.clock.advance(10_000);
  expect(two.left).toBe(0);
  const run = new Backfill('a');
  for (let height = 0; height < 4; height++) run.node('a').odd.set(height, 'unavailable');
  await run.clock.advance(10_000);
  expect(run.left).toBe(4);
  run.proves(0, 3);
  await run.clock.advance(60_000);
  expect(run.left).toBe(0);
});

it('names a block that the nodes give another id, or prove to be other than it is stored, which is fetched again, and proves all others', async () => {
  const run = new Backfill('a');
  const { chain, stored } = run;
  const fork = chain.fork('fork', 70);
  run.node('a').odd.set(70, { block: { ...fork.block(70), proof }, status: 'sealed' });
  await run.clock.advance(10_000);
  expect([run.left, run.damages]).toEqual([1, []]);
  const otherWords = `gives block 70 the id ${fork.idAt(70)}, but ${chain.idAt(70)} is stored`;
  expect(run.backfill.reason()).toContain(otherWords);
  stored.set(70, { ...chain.block(70), collectionIds: [chain.idAt(1)] });
  stored.set(69, { ...chain.block(69), parentId: chain.idAt(1) });
  run.proves(70, 70);
  await run.clock.advance(TEN_MINUTES_MS);
  const what = (height: number) =>
    `block ${height}: its id proves another parent or other guarantees than are stored`;
  expect(run.damages).toEqual([70, 69].map((height) => ({ height, what: what(height) })));
  expect([run.open(), run.backfill.reason()]).toEqual([
    [69, 70],
    expect.stringContaining(`${what(69)}; it is`),
  ]);
});
