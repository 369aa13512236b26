import { describe, expect, it } from 'vitest';
import { RangeLostError, type BlockEntry } from '../../../src/storage/index.js';
import { asAdmin, batchOf, begin, commitThrough, countIn, fill, lockHeld } from '../../support/index.js';
import { makeBlock, makeChain, plainChain, range, rowsOf, seededCollection } from '../../support/index.js';
import { parts, plan, until, usePostgres } from '../../support/index.js';

const chain = plainChain(10, 30, 2);
const at = (height: number) => chain[height - 10]!;
const blocks = (from: number, to: number) => chain.slice(from - 10, to - 9);
const postgres = usePostgres();

describe('a store on PostgreSQL that several processes have', () => {
  /** Two of them. The first leads. */
  const two = async (firstHeight = 10) => {
    const { url } = await postgres.home();
    const follower = await postgres.open(url, { isFollower: true });
    const leader = await begin(postgres.open(url), firstHeight, [at(firstHeight)]);
    return { url, follower, leader };
  };

  it('is made once, though they all begin at the same moment, and none has trouble with it', async () => {
    const { url } = await postgres.home({ isEmpty: true });
    const each = Array.from({ length: 8 }, () => parts());
    await Promise.all(each.map((its) => postgres.opening(url, {}, its)));
    expect(each.flatMap(({ logger }) => logger.of('warn'))).toEqual([]);
  });

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
    await commitThrough(leader, chain, 14);
    const faults = await postgres.faultsBefore(url);
    const watching = await postgres.open(faults.url, { isFollower: true });
    const its = parts();
    const unaware = await postgres.opening(faults.url, {}, its);
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
    const said = its.logger.of('warn').map(({ fields }) => fields);
    expect(said).toContainEqual({ had: 14, latestIndexedHeight: 16 });
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
    // The last two have the same collection.
    const bodies = ['a', 'b', 'b'].map((seed) => [seededCollection(seed, 2)]);
    const [first, second, third] = makeChain(10, bodies);
    const { store: leader, url } = await postgres.filled(10);
    const name = new URL(url).pathname.slice(1);
    const server = new URL('/postgres', url).href;
    const alone = async (...statements: readonly string[]) => {
      await asAdmin(server, `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`;
      await asAdmin(server, cut);
      for (const statement of statements) await asAdmin(server, statement);
      await asAdmin(server, `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    };
    await alone(`CREATE DATABASE ${name}_older TEMPLATE ${name}`);
    await leader.commit(batchOf(first!, second!));
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
    await follower.ranges.change({ plans: [plan(1, 5, 9)] });
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
    await worker.ranges.change({ plans: [plan(1, 10, 29)] });
    await until(() => leader.ranges.plans().length === 1);
    for (const each of [range(10, 14), range(20, 29)]) {
      await fill(worker, chain, each);
      await leader.commit(batchOf(at(leader.latestIndexedHeight() + 1)));
    }
    const coverage = [range(10, 14), range(20, 32)];
    await until(() => leader.meta()?.firstHeight === 20);
    await until(() => worker.latestIndexedHeight() === 32);
    expect(leader.coverage()).toEqual(coverage);
    expect(worker.coverage()).toEqual(coverage);
    expect((await leader.blockByHeight(12))?.block.id).toBe(at(12).block.id);
    await leader.commit(batchOf(at(33)));
    const latest = await rowsOf(url, 'SELECT max(to_height)::integer AS latest FROM flow.coverage');
    expect(latest).toEqual([{ latest: 33 }]);
  });

  it('keeps the plans of its last change when an older look at the store ends later', async () => {
    const { url, leader } = await two(30);
    const locked = await lockedTable(url, 'flow_store.block');
    // The look for this plan waits for the lock. What it will bring is older than the change that follows.
    await asAdmin(url, "INSERT INTO flow_store.plan VALUES (1, 10, 11, 'newest', false)");
    await until(() => locked.isAwaited());
    const plans = [plan(1, 10, 11), plan(2, 10, 12)];
    let seen: (readonly object[])[] | undefined;
    leader.shared.onChanged(() => seen?.push(leader.ranges.plans()));
    const changed = leader.ranges.change({ plans }).then(() => (seen = [leader.ranges.plans()]));
    await until(async () => (await countIn(url, 'flow_store.plan')) === 2);
    await until(() => locked.isAllElseIdle());
    await locked.release();
    await changed;
    // The look that finds this one ends after the older one.
    await asAdmin(url, "INSERT INTO flow_store.plan VALUES (3, 10, 13, 'newest', false)");
    await until(() => leader.ranges.plans().length === 3);
    expect(seen!.map((each) => each.slice(0, 2))).toEqual(seen!.map(() => plans));
  });

  it('is rewound to the end, though somebody published at that moment', async () => {
    const { url, leader } = await two(30);
    await leader.commit(batchOf(at(31)));
    await asAdmin(url, 'UPDATE flow_store.coverage SET from_height = 20');
    await leader.rewind(30);
    expect(leader.coverage()).toEqual([{ from: 20, to: 30 }]);
  });
});

describe('ranges of a store on PostgreSQL', () => {
  /** A store whose live range is of height 30 alone. */
  const begun = () => postgres.filled(30, blocks(30, 30));
  const behindFaults = () => postgres.filledBehindFaults(30, blocks(30, 30));

  it('find out that a range is published whose end they did not see, or that it goes on, like the live one', async () => {
    const { faults, store, url } = await behindFaults();
    faults.cutAfterRequest('COMMIT');
    for (const height of [31, 32]) await store.commit(batchOf(...blocks(height, height)));
    const run = await store.ranges.run(range(10, 19));
    faults.cutAfterRequest('COMMIT');
    await run.commit(batchOf(...blocks(10, 14)));
    expect(run.latestIndexedHeight()).toBe(14);
    expect(store.ranges.open()).toMatchObject([{ from: 10, to: 19, next: 15 }]);
    faults.cutAfterRequest('COMMIT');
    await run.commit(batchOf(...blocks(15, 19)));
    expect([faults.cuts, await countIn(url, 'flow_store.block')]).toEqual([3, 13]);
    expect(store.coverage()).toEqual([range(10, 19), range(30, 32)]);
    expect((await store.blockByHeight(15))?.block.id).toBe(blocks(15, 15)[0]?.block.id);
  });

  it('tell a run that lost its range while its commit was under way so, and it has written nothing', async () => {
    const { faults, store, url } = await behindFaults();
    const run = await store.ranges.run(range(10, 19));
    faults.cutAfterRequest('range_progress');
    const commit = run.commit(batchOf(...blocks(10, 12)));
    const refused = expect(commit).rejects.toBeInstanceOf(RangeLostError);
    await asAdmin(url, 'UPDATE flow_store.open_range SET epoch = epoch + 1');
    await refused;
    const left = await rowsOf(url, 'SELECT next_height FROM flow_store.open_range');
    expect(left).toEqual([{ next_height: '10' }]);
  });

  it('keep no spork of their own that the store has, however often it is read meanwhile', async () => {
    const { faults, store, url } = await behindFaults();
    const run = await store.ranges.run(range(10, 19));
    let refused = 0;
    faults.script = ({ text }) => {
      if (!text.includes('SET next_height')) return undefined;
      refused += 1;
      return { code: 'XX000', message: 'not now' };
    };
    const commit = run.commit(batchOf(...blocks(10, 12)));
    await expect.poll(() => refused).toBeGreaterThan(0);
    await asAdmin(url, `INSERT INTO flow_store.plan VALUES (1, 20, 29, 'newest', true)`);
    await expect.poll(() => store.ranges.plans(), { timeout: 10_000 }).toHaveLength(1);
    faults.script = () => undefined;
    await commit;
    expect(await rowsOf(url, 'SELECT sporks FROM flow_store.open_range')).toEqual([{ sporks: '[]' }]);
  });

  it('that are dropped end their run, which writes nothing more', async () => {
    const { store, url } = await begun();
    const run = await store.ranges.run(range(10, 19));
    await run.commit(batchOf(...blocks(10, 12)));
    await store.ranges.change({ dropped: [range(10, 19)] });
    await expect(run.commit(batchOf(...blocks(13, 19)))).rejects.toMatchObject({ kind: 'locked' });
    expect(store.ranges.open()).toEqual([]);
    expect(await countIn(url, 'flow_store.block')).toBe(1);
  });

  it('are taken back to a sound block by whoever leads next, and by nobody else', async () => {
    const { store, url } = await begun();
    await store.commit(batchOf(...blocks(31, 34)));
    await store.close();
    await asAdmin(url, 'DELETE FROM flow_store.block WHERE height IN (33, 34)');
    const follower = await postgres.open(url, { isFollower: true });
    expect([follower.latestIndexedHeight(), follower.latestBlock()]).toEqual([34, undefined]);
    await expect(follower.blockByHeight(34)).rejects.toMatchObject({ kind: 'corrupt', height: 34 });
    const leader = await postgres.open(url);
    expect(leader.latestBlock()?.id).toBe(blocks(32, 32)[0]?.block.id);
    await leader.commit(batchOf(...blocks(33, 33)));
    expect(leader.latestIndexedHeight()).toBe(33);
  });

  it('are verified: a body that goes on beyond its block, and a missing row of an open one', async () => {
    const { store, url } = await begun();
    const run = await store.ranges.run(range(10, 19));
    await run.commit(batchOf(...blocks(10, 13)));
    const damage = `INSERT INTO flow_store.body SELECT 30, 1, value FROM flow_store.body WHERE height = 30;
         DELETE FROM flow_store.block WHERE height = 11`;
    await asAdmin(url, damage);
    const { damages } = await postgres.verified(url);
    expect(damages.map(({ message }) => message)).toEqual([
      'height 11 has no block record',
      'body of height 11: it has no block record',
      'body of height 30: chunk 1 should not exist',
    ]);
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
