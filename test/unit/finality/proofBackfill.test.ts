import { afterEach, describe, expect, it } from 'vitest';
import { ProofBackfill } from '../../../src/finality/index.js';
import { joined, StorageError } from '../../../src/storage/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { FakeAccessNode, FakeAccessNodes, FakeChain } from '../../support/fakeAccessNodes.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { VirtualClock } from '../../support/virtualClock.js';

const HEIGHTS = 100;
const TEN_MINUTES_MS = 600_000;
const chain = new FakeChain();
const proof = Buffer.from('proof');

const stops: AbortController[] = [];
const running: Promise<unknown>[] = [];
afterEach(async () => {
  for (const each of stops.splice(0)) each.abort();
  await Promise.all(running.splice(0));
});

/** Blocks 0 to 99 without proofs, and nodes whose blocks have one. */
class Backfill {
  readonly clock = new VirtualClock();
  readonly logger = new RecordingLogger();
  readonly nodes: FakeAccessNodes;
  readonly stored = new Map<number, FinalizedBlock>();
  /** In order. */
  readonly added: number[] = [];
  readonly backfill: ProofBackfill;
  mayRun = true;
  /** How often more was proven. */
  told = 0;
  /** What adding proofs fails with. */
  damage: StorageError | undefined;
  readonly ended: Promise<unknown>;
  share = 1;

  constructor(names: readonly string[] = ['a']) {
    for (let height = 0; height < HEIGHTS; height++) this.stored.set(height, chain.block(height));
    this.nodes = new FakeAccessNodes(
      names.map((name) => {
        const node = new FakeAccessNode(name, chain);
        node.finalized = HEIGHTS - 1;
        for (let height = 0; height < HEIGHTS; height++) this.#proves(node, height);
        return node;
      }),
    );
    this.backfill = new ProofBackfill({
      ...{ clock: this.clock, logger: this.logger, nodes: this.nodes },
      mayRun: () => this.mayRun,
      share: () => this.share,
      onProven: () => (this.told += 1),
      store: {
        blockByHeight: (height) => {
          const block = this.stored.get(height);
          return Promise.resolve(block && { block, transactionCounts: [] });
        },
        unproven: () =>
          joined(
            [...this.stored.values()]
              .filter((block) => block.proof === undefined)
              .map(({ height }) => ({ from: height, to: height })),
          ),
        addProofs: (blocks) => {
          if (this.damage !== undefined) return Promise.reject(this.damage);
          for (const block of blocks) this.stored.set(block.height, block);
          this.added.push(...blocks.map(({ height }) => height));
          return Promise.resolve();
        },
      },
    });
    const ending = new AbortController();
    stops.push(ending);
    this.ended = this.backfill.run(ending.signal).catch((error: unknown) => error);
    running.push(this.ended);
  }

  get left(): number {
    return HEIGHTS - this.added.length;
  }

  node(index = 0): FakeAccessNode {
    return this.nodes.all[index]!;
  }

  #proves(node: FakeAccessNode, height: number): void {
    node.odd.set(height, { block: { ...chain.block(height), proof }, status: 'sealed' });
  }

  /** These heights of a node come without what proves them. */
  lacks(from: number, to: number, node = this.node()): void {
    for (let height = from; height <= to; height++) node.odd.delete(height);
  }

  proves(from: number, to: number): void {
    for (let height = from; height <= to; height++) this.#proves(this.node(), height);
  }
}

describe('ProofBackfill', () => {
  it('proves the newest first, few at once, until none is left', async () => {
    const run = new Backfill();
    await run.clock.advance(5_000);
    expect(run.added).toEqual(Array.from({ length: HEIGHTS }, (_, index) => HEIGHTS - 1 - index));
    expect(run.node().mostCallsUnderWay).toBeLessThanOrEqual(16);
    expect(run.backfill.reason()).toBeUndefined();
    expect(run.node().calls).toHaveLength(HEIGHTS);
    // Once for each batch.
    expect(run.told).toBeGreaterThan(1);
    expect(run.told).toBeLessThanOrEqual(HEIGHTS);
  });

  it('waits while it may not run, and is slower with a smaller share', async () => {
    const run = new Backfill();
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
    const run = new Backfill();
    run.lacks(60, 80);
    await run.clock.advance(10_000);
    const open = [...run.stored.values()].filter((block) => block.proof === undefined);
    expect(open.map(({ height }) => height)).toEqual(
      expect.arrayContaining(Array.from({ length: 21 }, (_, index) => 60 + index)),
    );
    expect(run.stored.get(99)?.proof).toBeDefined();
    expect(run.stored.get(0)?.proof).toBeDefined();
    expect(run.backfill.reason()).toMatch(/some stored blocks are not proven: block \d+ cannot be proven/);
    const asked = run.node().calls.length;
    await run.clock.advance(TEN_MINUTES_MS / 2);
    expect(run.node().calls).toHaveLength(asked);
    run.proves(60, 80);
    await run.clock.advance(TEN_MINUTES_MS);
    expect(run.left).toBe(0);
    expect(run.backfill.reason()).toBeUndefined();
    expect(run.logger.messages()).toEqual(['some stored blocks cannot be proven']);
  });

  it('takes the proof from any node, whatever the others lack', async () => {
    const run = new Backfill(['a', 'b']);
    run.lacks(0, HEIGHTS - 1);
    for (let height = 0; height < 50; height++) run.node().odd.set(height, 'unavailable');
    await run.clock.advance(10_000);
    expect(run.left).toBe(0);
  });

  it('asks again when every node failed, and loses nothing', async () => {
    const run = new Backfill();
    run.node().down = true;
    await run.clock.advance(40_000);
    expect(run.added).toEqual([]);
    expect(run.backfill.reason()).toContain('some stored blocks are not proven');
    expect(run.node().calls.length).toBeLessThanOrEqual(4 * 16);
    run.node().down = false;
    await run.clock.advance(30_000);
    expect(run.left).toBe(0);
  });

  it('asks again within a minute for heights whose nodes failed while those above were proven', async () => {
    const run = new Backfill();
    for (let height = 0; height < 4; height++) run.node().odd.set(height, 'unavailable');
    await run.clock.advance(10_000);
    expect(run.left).toBe(4);
    run.proves(0, 3);
    await run.clock.advance(60_000);
    expect(run.left).toBe(0);
  });

  it('ends with the damage that a proof shows', async () => {
    const run = new Backfill();
    const damage = new StorageError('corrupt', 'other guarantees are stored');
    run.damage = damage;
    await run.clock.advance(1_000);
    expect(await run.ended).toBe(damage);
  });

  it('names a block that the nodes give another id, and proves all others', async () => {
    const run = new Backfill();
    const fork = chain.fork('fork', 70);
    run.node().odd.set(70, { block: { ...fork.block(70), proof }, status: 'sealed' });
    await run.clock.advance(10_000);
    expect(run.left).toBe(1);
    expect(run.backfill.reason()).toContain(
      `gives block 70 the id ${fork.idAt(70)}, but ${chain.idAt(70)} is stored`,
    );
  });
});
