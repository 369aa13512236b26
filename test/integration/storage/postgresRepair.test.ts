import { describe, expect, it } from 'vitest';
import { asAdmin, blocksIn, commitThrough, countIn, evidenceOf, heal } from '../../support/index.js';
import { chainWith, lockHeld, range, rowsOf, seededCollection } from '../../support/index.js';
import { until, usePostgres, valueIn } from '../../support/index.js';

const FIRST = 10;
const LAST = 49;
/** Blocks 20 and 39 repeat what is in block 36. */
const nameOf = (index: number): string => `of ${[10, 29].includes(index) ? 26 : index}`;
const chainOf = (blocks: number) => chainWith(FIRST, blocks, (index) => [seededCollection(nameOf(index), 2)]);
const chain = chainOf(LAST - FIRST + 1);
const whole = range(FIRST, LAST);
const postgres = usePostgres();

const scriptOf = (height: number): string =>
  `hash = (SELECT script_hash FROM flow_store.transaction WHERE height = ${height} LIMIT 1)`;

describe('a store on PostgreSQL that is damaged', () => {
  const { repaired } = postgres;
  const damagesOf = async (url: string) => (await postgres.verified(url)).damages;
  /** From 10 to 19, an open range from 22 to 27 of which all but the last two are there, and from 30 to 49. */
  const filled = async () => {
    const { store, url } = await postgres.filled(30, blocksIn(chain, range(30, LAST)));
    await commitThrough(await store.ranges.run({ from: 10, to: 19 }), chain, 19);
    const run = await store.ranges.run({ from: 22, to: 27 });
    await commitThrough(run, chain, 25);
    return { run, store, url };
  };
  /** Everything that is missing comes, and then nothing tells that it was ever gone. */
  const expectHealed = async (url: string): Promise<void> => {
    const store = await postgres.open(url);
    const plan = { ...{ id: 999, from: FIRST, to: 29 }, order: 'newest', isPaused: false } as const;
    await store.ranges.change({ plans: [...store.ranges.plans(), plan] });
    await heal(store, chain);
    expect(store.coverage()).toEqual([{ from: FIRST, to: LAST }]);
    expect(await damagesOf(url)).toEqual([]);
    for (const { block, collections } of chain) {
      const stored = await store.wholeBlock(block.height);
      expect(stored?.bodies).toEqual(collections.map(({ encoded }) => encoded));
    }
  };

  it('forgets who signs where that is damaged, and keeps the rest', async () => {
    const { store, url } = await filled();
    const evidence = [31, 32].map((height) => evidenceOf(chain[height - FIRST]!));
    await store.keepEvidence(evidence[0]!);
    expect(await store.evidence()).toEqual([evidence[0]]);
    await store.keepEvidence(evidence[1]!);
    await asAdmin(url, `UPDATE flow_store.evidence SET record = 'none' WHERE height = 32`);
    expect(await damagesOf(url)).toMatchObject([{ kind: 'store_record' }]);
    await expect(repaired(url, true, 'flow-mainnet')).rejects.toMatchObject({ exit: 'foreign' });
    expect(await rowsOf(url, 'SELECT epoch FROM flow_store.store')).toEqual([{ epoch: '1' }]);
    expect(await repaired(url)).toMatchObject({ damageCount: 1, applied: true, holes: [] });
    expect(await store.evidence()).toEqual([evidence[0]]);
    // Another leads since the repair.
    await store.keepEvidence(evidence[1]!);
    expect(await store.evidence()).toEqual([evidence[0]]);
  });

  const damages: readonly (readonly [height: number, kind: string, sql: string])[] = [
    [12, 'block', 'UPDATE flow_store.body SET value = set_byte(value, 9, 255)'],
    [36, 'block', 'DELETE FROM flow_store.body'],
    [41, 'missing_block', 'DELETE FROM flow_store.block'],
    [44, 'unexpected', `UPDATE flow_store.transaction SET payer = '\\x01'`],
    [45, 'pointer', 'DELETE FROM flow_store.transaction'],
    [46, 'unexpected', `UPDATE flow_store.collection SET id = '\\x00'`],
    [47, 'pointer', 'DELETE FROM flow_store.account_transaction'],
    [48, 'unexpected', 'UPDATE flow_store.block SET time = now()'],
  ];

  it('is found at every height, keeps all that is sound, wherever it lies, and plans what is lost', async () => {
    const { url } = await filled();
    for (const [height, , sql] of damages) await asAdmin(url, `${sql} WHERE height = ${height}`);
    await asAdmin(url, `DELETE FROM flow_store.script WHERE ${scriptOf(43)}`);
    await asAdmin(url, `UPDATE flow_store.script SET body = 'x' WHERE ${scriptOf(49)} OR ${scriptOf(36)}`);
    const expected = {
      kept: [range(10, 11), range(13, 19), range(30, 35), range(37, 40), range(42, 49)],
      holes: [range(12), range(36), range(41)],
      keptThrough: LAST,
      latestIndexedHeight: LAST,
    };
    const found = await postgres.verified(url);
    const scripts = [39, 43, 49, undefined].map((height) => [height, 'pointer'] as const);
    for (const [height, kind] of [...damages, ...scripts])
      expect(found.damages).toContainEqual(expect.objectContaining({ height, kind }));
    expect(found.damagedHeights).toEqual([range(12), range(36), range(39), range(41), range(43, 49)]);
    expect(await repaired(url, false)).toMatchObject({ ...expected, applied: false });
    expect(await damagesOf(url)).toEqual(found.damages);
    expect(await repaired(url)).toMatchObject({ ...expected, applied: true });
    expect(await damagesOf(url)).toEqual([]);
    const store = await postgres.open(url, { isFollower: true });
    expect(store.coverage()).toEqual(expected.kept);
    expect(store.ranges.plans().map(({ from, to }) => ({ from, to }))).toEqual(expected.holes);
    expect(await repaired(url)).toMatchObject({ damageCount: 0, applied: false });
    await expectHealed(url);
  });

  it('is not what a rewind takes away while it is looked for', async () => {
    const { url } = await filled();
    const { client, release } = await lockHeld(url, 'LOCK TABLE flow_store.collection');
    const verified = postgres.verified(url);
    const waiting = `pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    await until(async () => (await countIn(url, waiting)) === 1);
    for (const table of ['block', 'body', 'collection', 'transaction', 'account_transaction'])
      await client.query(`DELETE FROM flow_store.${table} WHERE height > 40`);
    await client.query('UPDATE flow_store.coverage SET to_height = 40 WHERE to_height = 49');
    await release();
    expect(await verified).toMatchObject({ damages: [], damagedHeights: [], heights: 25 });
  });

  it('is looked for in a thousand scripts at once: it says how far it is, and stops there when told', async () => {
    const { url } = await filled();
    const bodies = 'SELECT int4send(n) AS body FROM generate_series(1, 2500) AS n';
    await asAdmin(url, `INSERT INTO flow_store.script SELECT sha256(body), body FROM (${bodies}) AS made`);
    const ending = new AbortController();
    let steps = 0;
    const onProgress = ({ phase }: { readonly phase: string }) => {
      if (phase === 'pointers' && (steps += 1) === 5) ending.abort(new Error('told'));
    };
    expect((await postgres.verified(url, {}, { onProgress })).damages).toEqual([]);
    const verifying = postgres.verified(url, {}, { onProgress, signal: ending.signal });
    await expect(verifying).rejects.toThrow('told');
    expect(steps).toBe(5);
  });

  it('goes on below the heights that are lost at its end, and at its beginning', async () => {
    const { store, url } = await filled();
    await store.keepProven(49);
    await store.keepEvidence(evidenceOf(chain[49 - FIRST]!));
    await asAdmin(url, 'DELETE FROM flow_store.block WHERE height IN (10, 30, 49)');
    expect(await repaired(url)).toMatchObject({ kept: [range(11, 19), range(31, 48)], keptThrough: 48 });
    expect(await countIn(url, 'flow_store.proven WHERE height = 48')).toBe(1);
    expect(await countIn(url, 'flow_store.evidence')).toBe(0);
    await expectHealed(url);
  });

  it('is not touched while it is sound, and has a range with damage taken from its worker, which goes on below it', async () => {
    const { run, store, url } = await filled();
    expect(await repaired(url)).toMatchObject({ damageCount: 0, applied: false, kept: [] });
    // Its worker goes on.
    await commitThrough(run, chain, 26);
    await asAdmin(url, 'DELETE FROM flow_store.block WHERE height = 24');
    await repaired(url);
    await expect(commitThrough(run, chain, 27)).rejects.toMatchObject({ kind: 'locked' });
    const again = await store.ranges.run({ from: 22, to: 27 });
    expect(again.latestIndexedHeight()).toBe(23);
    expect(again.blocksAboveWatermark().map(({ height }) => height)).toEqual([25, 26]);
    await expectHealed(url);
  });

  it('loses what no range has, and keeps the store when every block is lost', async () => {
    const { url } = await filled();
    await asAdmin(url, 'DELETE FROM flow_store.open_range');
    expect((await damagesOf(url)).map(({ height }) => height)).toEqual([22, 23, 24, 25]);
    await repaired(url);
    await expectHealed(url);
    const { url: emptied } = await filled();
    await asAdmin(emptied, 'DELETE FROM flow_store.block');
    expect(await repaired(emptied)).toMatchObject({ kept: [], keptThrough: 29, holes: [range(10, 19)] });
    expect(await damagesOf(emptied)).toEqual([]);
  });
});

describe('a damaged height in a database', () => {
  /** The same, and a block more. */
  const longer = chainOf(LAST - FIRST + 2);

  const filled = () => postgres.filled(FIRST, blocksIn(chain, whole));
  const putAway = `CREATE TABLE public.away AS SELECT * FROM flow_store.body WHERE height = 20;
    DELETE FROM flow_store.body WHERE height = 20`;
  const putBack = 'INSERT INTO flow_store.body SELECT * FROM public.away';

  it.each([
    ['a body', `UPDATE flow_store.body SET value = set_byte(value, 9, 255) WHERE height = 20`],
    ['a block', `DELETE FROM flow_store.block WHERE height = 20`],
    ['a place', `UPDATE flow_store.transaction SET body_offset = body_offset + 1 WHERE height = 20`],
    ['an entry of an account', `DELETE FROM flow_store.account_transaction WHERE height = 20`],
    ['a script that others have as well', `DELETE FROM flow_store.script WHERE ${scriptOf(20)}`],
    ['the body of such a script', `UPDATE flow_store.script SET body = 'x' WHERE ${scriptOf(20)}`],
    ['a body that somebody puts back when the height is a hole already', putAway, putBack],
  ])('is found, becomes a hole, and is filled again: %s', async (_, statement, later = 'SELECT 1') => {
    const { store, url } = await filled();
    const other = await postgres.open(url, { isFollower: true });
    await asAdmin(url, statement);
    const { damages } = await other.check(whole);
    expect(new Set(damages.map(({ height }) => height))).toEqual(new Set([20]));

    // By a process that does not lead, while the leader goes on.
    expect(await other.heal([{ from: 20, to: 20 }], 6)).toEqual([{ from: 20, to: 20 }]);
    expect(await other.heal([{ from: 20, to: 20 }])).toEqual([]);
    await commitThrough(store, longer, LAST + 1);
    await until(() => store.healing().length > 0);
    expect(store.ranges.plans()).toMatchObject([{ id: 7, from: 20, to: 20, heals: true }]);
    expect(store.coverage()).toEqual([range(FIRST, 19), range(21, LAST + 1)]);
    expect(await store.blockByHeight(20)).toBeUndefined();
    expect((await store.check(whole)).damages).toEqual([]);
    await asAdmin(url, later);
    await heal(store, longer);
    expect([store.healing(), store.coverage()]).toEqual([[], [{ from: FIRST, to: LAST + 1 }]]);
    expect(await postgres.verified(url)).toMatchObject({ damages: [], damageCount: 0 });
  });

  it('keeps no follower from hearing of others, where the chain is proven up to it', async () => {
    const { store, url } = await filled();
    const other = await postgres.open(url, { isFollower: true });
    const heard = new Set<number>();
    other.onChanged(() => heard.add(other.latestIndexedHeight()));
    await asAdmin(url, `UPDATE flow_store.block SET record = 'none' WHERE height = 30`);
    await store.keepProven(30);
    await commitThrough(store, longer, LAST + 1);
    await until(() => heard.has(LAST + 1));
    expect([other.provenBlock(), other.trouble()]).toEqual([undefined, undefined]);
  });

  it('has its views and indexes again after the next start, and keeps what others changed or were granted', async () => {
    const { store, url } = await filled();
    await store.close();
    const older = `CREATE OR REPLACE VIEW flow.spork AS SELECT *, 1 AS mine FROM flow_store.spork; DROP VIEW flow.script;
       GRANT SELECT ON flow.block TO PUBLIC; DROP INDEX flow_store.block_id; DROP INDEX flow_store.block_time;
       CREATE INDEX block_time ON ONLY flow_store.block (time)`;
    await asAdmin(url, older);
    const again = await postgres.open(url);
    const valid = `pg_index WHERE indisvalid AND indexrelid IN (to_regclass('flow_store.block_id'), 'flow_store.block_time'::regclass)`;
    await until(async () => (await countIn(url, valid)) === 2);
    const kept = `SELECT has_table_privilege('pg_monitor', 'flow.block', 'SELECT') AS value`;
    expect(await valueIn(url, kept)).toBe(true);
    expect(await rowsOf(url, 'SELECT mine FROM flow.spork')).toEqual([{ mine: 1 }]);
    await again.close();
    await asAdmin(url, 'DROP SCHEMA flow CASCADE');
    await postgres.open(url);
    expect(await countIn(url, 'flow.script')).toBeGreaterThan(0);
  });

  it('heals also in a store of an earlier version, which can be read as it is', async () => {
    const { store, url } = await filled();
    await store.close();
    const slow = `SELECT relname FROM pg_class WHERE relnamespace = 'flow_store'::regnamespace AND relispartition AND relkind = 'r'
      AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        WHERE indrelid = pg_class.oid AND attname = 'height')`;
    expect(await rowsOf(url, slow), 'without an index by height').toEqual([]);
    await asAdmin(url, 'ALTER TABLE flow_store.plan DROP COLUMN heals');
    await asAdmin(url, 'DROP INDEX flow_store.account_transaction_height');
    expect((await postgres.open(url, { isReadOnly: true, create: false })).healing()).toEqual([]);
    const again = await postgres.open(url);
    await again.heal([{ from: 30, to: 31 }]);
    expect(again.healing()).toEqual([{ from: 30, to: 31 }]);
    await until(async () => (await rowsOf(url, slow)).length === 0);
  });
});
