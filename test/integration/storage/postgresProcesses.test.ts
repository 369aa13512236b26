import { describe, expect, it } from 'vitest';
import type { BlockEntry } from '../../../src/storage/index.js';
import { asAdmin, countIn, lockHeld } from '../../support/postgresServer.js';
import { until } from '../../support/program.js';
import { batchOf, chainWith, makeBlock, plainChain, seededCollection } from '../../support/storeBlocks.js';
import { begin } from '../../support/storeDirectory.js';
import { usePostgres } from '../../support/storeKinds.js';
import { range } from '../../support/ranges.js';

const chain = plainChain(10, 30, 2);
const at = (height: number) => chain[height - 10]!;

describe('a store on PostgreSQL that several processes have', () => {
  const postgres = usePostgres();

  /** Two of them. The first leads. */
  const two = async (firstHeight = 10) => {
    const { url } = await postgres.home();
    const follower = await postgres.open(url, { isFollower: true });
    const leader = await begin(postgres.open(url), firstHeight, [at(firstHeight)]);
    return { url, follower, leader };
  };

  it('is known to all of them as the leader commits it', async () => {
    const { follower, leader } = await two();
    let told = 0;
    follower.shared.onChanged(() => (told += 1));
    expect(follower.shared.isLeading()).toBe(false);
    await until(() => follower.latestIndexedHeight() === 10);
    expect(follower.meta()).toEqual(leader.meta());
    await leader.commit({ blocks: [at(11), at(13)], latestIndexedHeight: 11 });
    await until(() => follower.latestIndexedHeight() === 11);
    await until(() => told > 0);
    expect(follower.coverage()).toEqual([{ from: 10, to: 11 }]);
    expect(follower.latestBlock()).toEqual(leader.latestBlock());
    expect(follower.blocksAboveWatermark()).toEqual(leader.blocksAboveWatermark());
    expect((await follower.blockByHeight(11))?.block.id).toBe(at(11).block.id);
    await leader.rewind(10);
    await until(() => follower.latestIndexedHeight() === 10);
    expect(await follower.blockByHeight(11)).toBeUndefined();
  });

  it('is known to have been rewound, however little of that was seen', { timeout: 120_000 }, async () => {
    const { leader, url } = await two();
    await leader.commit({ blocks: chain.slice(1, 5), latestIndexedHeight: 14 });
    const faults = await postgres.faultsBefore(url);
    const watching = await postgres.open(faults.url, { isFollower: true });
    const unaware = await postgres.open(faults.url, { isFollower: true });
    await until(() => watching.latestIndexedHeight() === 14 && unaware.latestIndexedHeight() === 14);
    await faults.down();
    await leader.rewind(12);
    const other: BlockEntry[] = [];
    for (let height = 13; height <= 17; height += 1)
      other.push(makeBlock(height, (other.at(-1) ?? at(12)).block.id, [], 'other'));
    await leader.commit({ blocks: other.slice(0, 4), latestIndexedHeight: 16 });
    expect([leader, watching, unaware].map((store) => store.rewinds())).toEqual([1, 0, 0]);
    await faults.up();
    await unaware.shared.lead();
    await until(() => watching.latestIndexedHeight() === 16);
    expect([watching, unaware].map((store) => store.rewinds())).toEqual([1, 1]);
    // Commits and new leaders take nothing back.
    await unaware.commit({ blocks: other.slice(4), latestIndexedHeight: 17 });
    await until(() => watching.latestIndexedHeight() === 17);
    await watching.shared.lead();
    expect([watching, unaware].map((store) => store.rewinds())).toEqual([1, 1]);
  });

  it('is written by the one that leads last, which knows all that was written before', async () => {
    const { follower, leader, url } = await two();
    await leader.commit({ blocks: [at(11), at(13)], latestIndexedHeight: 11 });
    const term = await follower.shared.lead();
    expect(follower.latestIndexedHeight()).toBe(11);
    expect(follower.hasHeight(13)).toBe(true);
    await follower.commit({ blocks: [at(12)], latestIndexedHeight: 13 });
    const late = leader.commit({ blocks: [at(12)], latestIndexedHeight: 13 });
    await expect(late).rejects.toMatchObject({ kind: 'locked' });
    expect(await countIn(url, 'flow_store.block')).toBe(4);
    expect(term.aborted).toBe(false);
    // The write that failed is forgotten with the lead: it may lead again.
    await leader.shared.follow();
    await until(() => leader.latestIndexedHeight() === 13);
    await leader.shared.lead();
    await leader.commit(batchOf(at(14)));
    await until(() => term.aborted);
  });

  it('is whole where an older copy without its partitions takes its place, like a replica that was behind', async () => {
    const [first, second, third] = chainWith(10, 3, (index) => [
      seededCollection(`c${Math.min(index, 1)}`, 2),
    ]);
    const { url } = await postgres.home();
    const leader = await begin(postgres.open(url), 10);
    const name = new URL(url).pathname.slice(1);
    const server = Object.assign(new URL(url), { pathname: '/postgres' }).href;
    const alone = async (...statements: readonly string[]) => {
      await asAdmin(server, `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      await asAdmin(server, 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [
        name,
      ]);
      for (const statement of statements) await asAdmin(server, statement);
      await asAdmin(server, `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    };
    await alone(`CREATE DATABASE ${name}_older TEMPLATE ${name}`);
    await leader.commit({ blocks: [first!, second!], latestIndexedHeight: 11 });
    await alone(
      `ALTER DATABASE ${name} RENAME TO ${name}_lost`,
      `ALTER DATABASE ${name}_older RENAME TO ${name}`,
      `DROP DATABASE ${name}_lost`,
    );
    await expect(leader.commit(batchOf(third!))).rejects.toMatchObject({ kind: 'locked' });
    await leader.shared.lead();
    expect(leader.latestIndexedHeight()).toBe(9);
    for (const block of [first!, second!, third!]) await leader.commit(batchOf(block));
    expect(await postgres.verified(url)).toMatchObject({ damageCount: 0, damages: [] });
  });

  it('is known to a leader that was replaced once it follows, whenever it last looked', async () => {
    const { follower, leader } = await two();
    await follower.shared.lead();
    await follower.commit(batchOf(at(11)));
    const plan = { ...{ id: 1, from: 5, to: 9, order: 'newest' as const }, isPaused: false };
    await follower.ranges.change({ plans: [plan] });
    await until(() => leader.ranges.plans().length === 1);
    await leader.shared.follow();
    await until(() => leader.latestIndexedHeight() === 11);
  });

  it('is known to a leader that follows while it looks: it forgets nothing that it has written', async () => {
    const { store: leader, url } = await postgres.filled(10, [at(10)]);
    const bodies = await lockedTable(url, 'flow_store.body');
    await asAdmin(url, "INSERT INTO flow_store.plan VALUES (1, 5, 9, 'newest', false)");
    await until(() => bodies.isAwaited());
    await leader.commit(batchOf(makeBlock(11, at(10).block.id, [])));
    await leader.shared.follow();
    const seen = new Set<number>();
    leader.shared.onChanged(() => seen.add(leader.latestIndexedHeight()));
    await bodies.release();
    await until(() => leader.ranges.plans().length === 1);
    expect([...seen, leader.latestIndexedHeight()]).toEqual([11, 11]);
  });

  it('has one coverage, whoever publishes', async () => {
    const { url, follower: worker, leader } = await two(30);
    await until(() => worker.latestBlock() !== undefined);
    await worker.ranges.change({ plans: [{ id: 1, from: 10, to: 29, order: 'newest', isPaused: false }] });
    await until(() => leader.ranges.plans().length === 1);
    const ranges = [range(10, 14), range(20, 29)];
    for (const { from, to } of ranges) {
      const run = await worker.ranges.run({ from, to });
      await run.commit({ blocks: chain.slice(from - 10, to - 9), latestIndexedHeight: to });
      const next = leader.latestIndexedHeight() + 1;
      await leader.commit(batchOf(at(next)));
    }
    const coverage = [range(10, 14), range(20, 32)];
    await until(() => leader.meta()?.firstHeight === 20);
    await until(() => worker.latestIndexedHeight() === 32);
    expect(leader.coverage()).toEqual(coverage);
    expect(worker.coverage()).toEqual(coverage);
    expect((await leader.blockByHeight(12))?.block.id).toBe(at(12).block.id);
    await leader.commit(batchOf(at(33)));
    const { rows } = await asAdmin(url, 'SELECT max(to_height)::integer AS latest FROM flow.coverage');
    expect(rows).toEqual([{ latest: 33 }]);
  });

  it('keeps the plans of its last change when an older look at the store ends later', async () => {
    const { url, leader } = await two(30);
    const plan = (id: number) =>
      ({ ...{ id, from: 10, to: 10 + id }, order: 'newest', isPaused: false }) as const;
    const blocks = await lockedTable(url, 'flow_store.block');
    // The look for this plan waits for the lock. What it will bring is older than the change that follows.
    await asAdmin(url, "INSERT INTO flow_store.plan VALUES (1, 10, 11, 'newest', false)");
    await until(() => blocks.isAwaited());
    const plans = [plan(1), plan(2)];
    let seen: unknown[] | undefined;
    leader.shared.onChanged(() => seen?.push(leader.ranges.plans()));
    const changed = leader.ranges.change({ plans }).then(() => (seen = [leader.ranges.plans()]));
    await until(async () => (await countIn(url, 'flow_store.plan')) === 2);
    await until(() => blocks.isAllElseIdle());
    await blocks.release();
    await changed;
    await until(() => seen!.length > 1);
    expect(seen).toEqual(seen!.map(() => plans));
  });

  it('is rewound to the end, though somebody published at that moment', async () => {
    const { url, leader } = await two(30);
    await leader.commit(batchOf(at(31)));
    await asAdmin(url, 'UPDATE flow_store.coverage SET from_height = 20');
    await leader.rewind(30);
    expect(leader.coverage()).toEqual([{ from: 20, to: 30 }]);
  });
});

/** Keeps everybody else from reading a table. */
async function lockedTable(url: string, table: string) {
  const { client, release } = await lockHeld(url, `LOCK TABLE ${table}`);
  return {
    release,
    isAwaited: async () => {
      const waiting = 'SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted';
      return (await client.query(waiting, [table])).rowCount !== 0;
    },
    /** Only those who wait for the table have a query under way. */
    isAllElseIdle: async () => {
      for (let look = 0; look < 10; look += 1) {
        const { rowCount } =
          await client.query(`SELECT FROM pg_stat_activity WHERE datname = current_database()
          AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock' AND pid <> pg_backend_pid()`);
        if (rowCount !== 0) return false;
      }
      return true;
    },
  };
}
