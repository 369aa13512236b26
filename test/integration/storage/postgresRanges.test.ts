import { describe, expect, it } from 'vitest';
import { AbortError } from '../../../src/runtime/index.js';
import { RangeLostError } from '../../../src/storage/index.js';
import { asAdmin, countIn } from '../../support/postgresServer.js';
import { batchOf, plainChain } from '../../support/storeBlocks.js';
import { metaFrom } from '../../support/storeDirectory.js';
import { usePostgres } from '../../support/storeKinds.js';
import { range } from '../../support/ranges.js';
import { refusal } from '../../support/refusal.js';

const chain = plainChain(10, 130);
const blocks = (from: number, to: number) => chain.slice(from - 10, to - 9);

describe('ranges of a store on PostgreSQL', () => {
  const postgres = usePostgres();

  /** A store whose live range is of height 30 alone. */
  const begun = () => postgres.filled(30, blocks(30, 30));
  const behindFaults = () => postgres.filledBehindFaults(30, blocks(30, 30));

  it('find out that a range is published whose end they did not see, or that it goes on, like the live one', async () => {
    const { faults, store, url } = await behindFaults();
    faults.cutAfterRequest('COMMIT');
    for (const height of [31, 32]) await store.commit(batchOf(...blocks(height, height)));
    const run = await store.ranges.run({ from: 10, to: 19 });
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
    const run = await store.ranges.run({ from: 10, to: 19 });
    faults.cutAfterRequest('range_progress');
    const commit = run.commit(batchOf(...blocks(10, 12)));
    const refused = expect(commit).rejects.toBeInstanceOf(RangeLostError);
    await asAdmin(url, 'UPDATE flow_store.open_range SET epoch = epoch + 1');
    await refused;
    const { rows } = await asAdmin(url, 'SELECT next_height FROM flow_store.open_range');
    expect(rows).toEqual([{ next_height: '10' }]);
  });

  it('keep no spork of their own that the store has, however often it is read meanwhile', async () => {
    const { faults, store, url } = await behindFaults();
    const run = await store.ranges.run({ from: 10, to: 19 });
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
    const { rows } = await asAdmin(url, 'SELECT sporks FROM flow_store.open_range');
    expect(rows).toEqual([{ sporks: '[]' }]);
  });

  it('that are dropped end their run, which writes nothing more', async () => {
    const { store, url } = await begun();
    const run = await store.ranges.run({ from: 10, to: 19 });
    await run.commit(batchOf(...blocks(10, 12)));
    await store.ranges.change({ dropped: [{ from: 10, to: 19 }] });
    await expect(run.commit(batchOf(...blocks(13, 19)))).rejects.toMatchObject({
      kind: 'locked',
    });
    await run.forgetAbove();
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

  describe('verify', () => {
    const { verified } = postgres;

    it('takes a store in which nothing is yet, where no height can be asked for', async () => {
      const { url } = await postgres.home();
      const store = await postgres.open(url);
      const nothing = { heights: 0, damageCount: 0, range: undefined, waiting: undefined, ranges: [] };
      expect(await verified(url)).toMatchObject({ ...nothing, latestIndexedHeight: undefined });
      await expect(verified(url, { from: 5 })).rejects.toMatchObject(
        refusal('usage', 'the store holds heights none'),
      );
      await store.initialise(metaFrom(30));
      expect(await verified(url)).toMatchObject({ ...nothing, latestIndexedHeight: 29 });
    });

    it('tells how far it is, and stops when told to', async () => {
      const { url } = await postgres.filled(10, chain);
      const heights: unknown[] = [];
      const onProgress = (progress: object): void =>
        void heights.push('height' in progress ? progress.height : progress);
      expect(await verified(url, {}, { onProgress })).toMatchObject({ heights: 130, damageCount: 0 });
      expect(heights).toEqual(chain.map(({ block }) => block.height));
      const controller = new AbortController();
      const { signal } = controller;
      const stop = (): void => controller.abort(new AbortError('stopping'));
      await expect(verified(url, {}, { signal, onProgress: stop })).rejects.toThrow('stopping');
    });

    it('finds a body that goes on beyond its block, and a missing row of an open range', async () => {
      const { store, url } = await begun();
      const run = await store.ranges.run({ from: 10, to: 19 });
      await run.commit(batchOf(...blocks(10, 13)));
      await asAdmin(
        url,
        `INSERT INTO flow_store.body SELECT 30, 1, value FROM flow_store.body WHERE height = 30;
         DELETE FROM flow_store.block WHERE height = 11`,
      );
      const { damages } = await verified(url);
      expect(damages.map(({ message }) => message)).toEqual([
        'height 11 has no block record',
        'body of height 11: it has no block record',
        'body of height 30: chunk 1 should not exist',
      ]);
    });
  });
});
