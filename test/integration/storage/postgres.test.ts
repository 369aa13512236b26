import { describe, expect, it } from 'vitest';
import { lastingPort } from '../../support/lastingPort.js';
import { asAdmin, countIn } from '../../support/postgresServer.js';
import type { PostgresMachine } from '../../support/postgresServer.js';
import { until } from '../../support/program.js';
import { batchOf, plainChain, transactionIdsOf } from '../../support/storeBlocks.js';
import { usePostgres } from '../../support/storeKinds.js';
import { fault, refusal } from '../../support/refusal.js';

const chain = plainChain(10, 40, 2);
const at = (height: number) => chain[height - 10]!;

describe('the store on PostgreSQL', { timeout: 120_000 }, () => {
  const postgres = usePostgres({ isOwn: true });

  const begun = () => postgres.filled(10, [at(10)]);

  /** `undefined` where the server is somebody else's. */
  const ours = (): PostgresMachine | undefined => postgres.server().machine;

  const countOf = (url: string, table: string) => countIn(url, `flow_store.${table}`);

  it('refuses rows that are there already, though the queue and the fence would let them pass', async () => {
    const { store, url } = await begun();
    await asAdmin(
      url,
      `INSERT INTO flow_store.body SELECT 11, chunk, value FROM flow_store.body WHERE height = 10`,
    );
    await expect(store.commit(batchOf(at(11)))).rejects.toMatchObject({ kind: 'corrupt' });
    expect(await countOf(url, 'block')).toBe(1);
  });

  it('goes on by itself when the server was killed, whatever it was doing', async () => {
    const machine = ours();
    const { store, url } = await begun();
    for (let height = 11; height < 41; height += 1) {
      const committed = store.commit(batchOf(at(height)));
      if (height % 6 === 0) await cutOff(url, machine, height % 12 === 0);
      await committed;
    }
    expect(store.latestIndexedHeight()).toBe(40);
    for (const table of ['block', 'collection']) expect(await countOf(url, table)).toBe(31);
    expect(await countOf(url, 'transaction')).toBe(62);
    await store.close();
    const again = await postgres.open(url);
    expect(again.coverage()).toEqual([{ from: 10, to: 40 }]);
    for (let height = 10; height < 41; height += 1) {
      expect((await again.blockByHeight(height))?.block.id).toBe(at(height).block.id);
    }
  });

  it('says what is wrong while the database is away, and readers are told at once', async () => {
    const { faults, store } = await postgres.filledBehindFaults(10, [at(10), at(11)]);
    const replica = await postgres.replica(faults.url, store);
    expect((await replica.blockByHeight(10))?.block.id).toBe(at(10).block.id);
    await faults.down();
    await expect(replica.blockByHeight(10)).rejects.toMatchObject({ kind: 'unavailable' });
    const waiting = store.commit(batchOf(at(12)));
    const reading = store.blockByHeight(11);
    await until(() => store.trouble() !== undefined);
    expect(store.trouble()).toMatch(/127\.0\.0\.1:\d+\/fci_test_\w+ \(/);
    await faults.up();
    await waiting;
    expect((await reading)?.block.id).toBe(at(11).block.id);
    await until(() => store.trouble() === undefined);
    expect((await replica.blockByHeight(10))?.block.id).toBe(at(10).block.id);
  });

  it('goes on saying that nothing is written while reads are answered', async () => {
    const { store, url } = await begun();
    const name = new URL(url).pathname.slice(1);
    const elsewhere = new URL(url);
    elsewhere.pathname = '/postgres';
    const set = async (what: string) => {
      await asAdmin(elsewhere.href, `ALTER DATABASE ${name} ${what}`);
      const sessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`;
      await asAdmin(elsewhere.href, sessions);
    };
    await set('SET default_transaction_read_only = on');
    const commit = store.commit(batchOf(at(11)));
    await until(() => store.trouble()?.includes('read-only') === true);
    expect((await store.blockByHeight(10))?.block.id).toBe(at(10).block.id);
    expect(store.trouble()).toContain('It takes no writes now');
    await set('RESET default_transaction_read_only');
    await commit;
    await until(() => store.trouble() === undefined);
    await store.close();
  });

  it('says what to do when its tables are gone, and goes on once they are back', async () => {
    const { store, url } = await begun();
    const reader = await postgres.open(url, { isReadOnly: true, create: false, patienceMs: 0 });
    await asAdmin(url, 'ALTER SCHEMA flow_store RENAME TO elsewhere');
    await expect(reader.blockByHeight(10)).rejects.toMatchObject(
      fault('not_a_store', 'restore the database from a copy'),
    );
    const reading = store.blockByHeight(10);
    const commit = store.commit(batchOf(at(11)));
    await until(() => store.trouble()?.includes('restore the database from a copy') === true);
    await asAdmin(url, 'ALTER SCHEMA elsewhere RENAME TO flow_store');
    expect((await reading)?.block.id).toBe(at(10).block.id);
    await commit;
    await until(() => store.trouble() === undefined);
    await store.close();
  });

  it('can be closed while the database is away', async () => {
    const { faults, store } = await postgres.filledBehindFaults(10);
    await faults.down();
    const commit = store.commit(batchOf(at(10)));
    const refused = expect(commit).rejects.toMatchObject({ kind: 'unavailable' });
    await store.close();
    await refused;
  });

  describe('is refused with a sentence:', () => {
    const { opening } = postgres;

    it('where nobody answers', async () => {
      const url = `postgres://somebody:secret@127.0.0.1:${await lastingPort()}/flow`;
      await expect(opening(url)).rejects.toMatchObject({ kind: 'unavailable', exit: 'storage' });
      const failure: unknown = await opening(url).catch((error: unknown) => error);
      expect(String(failure)).not.toMatch(/secret|somebody/);
    });

    it('a database that does not exist', async () => {
      const { url } = await postgres.home();
      const other = new URL(url);
      other.pathname = '/no_such_database';
      await expect(opening(other.href)).rejects.toMatchObject(fault('missing', /createdb/));
    });

    it.each([
      ['postgres://host/', /names no database/],
      ['postgres://host/a%ZZ', /has a % that encodes no character: write %25 for the sign itself/],
      ['http://host/flow', /not a database URL/],
      ['postgres://host/flow?sslmode=prefer', /unchecked connection/],
      ['postgres://host/flow?sslmode=verify-full&sslrootcert=/no/such/file', /cannot be read/],
      ['postgres://host/flow?password=secret', /not known/],
    ])('the URL %s', async (url, message) => {
      await expect(opening(url)).rejects.toMatchObject(refusal('configuration', message));
    });

    it('a server without TLS where TLS is asked for', async () => {
      const { url } = await postgres.home();
      await expect(opening(`${url}?sslmode=verify-full`)).rejects.toMatchObject({
        message: expect.stringMatching(/SSL/) as string,
      });
    });
  });

  describe('is verified:', () => {
    const { verified } = postgres;

    const filled = async () => {
      const { store, url } = await postgres.filled(30, chain.slice(20, 30), 38);
      const run = await store.ranges.run({ from: 10, to: 19 });
      await run.commit({ blocks: chain.slice(0, 10), latestIndexedHeight: 19 });
      const open = await store.ranges.run({ from: 22, to: 25 });
      await open.commit({ blocks: [at(22), at(24)], latestIndexedHeight: 22 });
      return url;
    };

    it('all of it is sound, beside a daemon', async () => {
      const url = await filled();
      expect(await verified(url)).toMatchObject({
        ...{ damageCount: 0, heights: 22, collections: 22, transactions: 44, latestIndexedHeight: 38 },
        range: { from: 10, to: 39 },
        waiting: { blocks: 1, from: 39, to: 39 },
        ranges: [
          { from: 10, to: 19, kind: 'published', blocks: 10, damaged: [] },
          { from: 22, to: 25, kind: 'open', blocks: 2, damaged: [] },
          { from: 30, to: 38, kind: 'live', blocks: 9, damaged: [] },
        ],
      });
      expect(await verified(url, { from: 12, to: 14 })).toMatchObject({ damageCount: 0, heights: 3 });
      await expect(verified(url, { from: 15, to: 40 })).rejects.toMatchObject({ exit: 'usage' });
    });

    it('finds every damage, at its height', async () => {
      const url = await filled();
      const set = (height: number, table: string, change: string): string =>
        `UPDATE flow_store.${table} SET ${change} WHERE height = ${height}`;
      const lose = (height: number, table: string): string =>
        `DELETE FROM flow_store.${table} WHERE height = ${height}`;
      const damages: readonly [height: number, kind: string, sql: string][] = [
        [10, 'block', set(10, 'body', 'value = set_byte(value, 9, 255)')],
        [11, 'missing_block', lose(11, 'block')],
        [12, 'block', lose(12, 'body')],
        [13, 'pointer', `${lose(13, 'transaction')} AND transaction_index = 1`],
        [14, 'unexpected', set(14, 'transaction', `payer = '\\x01'`)],
        [15, 'pointer', lose(15, 'account_transaction')],
        [16, 'unexpected', set(16, 'collection', `id = '\\x00'`)],
        [17, 'unexpected', set(17, 'block', 'time = now()')],
        [
          18,
          'unexpected',
          `DELETE FROM flow_store.script WHERE hash = (SELECT script_hash FROM flow_store.transaction
            WHERE height = 18 LIMIT 1)`,
        ],
      ];
      await asAdmin(url, damages.map(([, , sql]) => sql).join(';'));
      const report = await verified(url);
      for (const [height, kind] of damages) {
        expect(report.damages).toContainEqual(expect.objectContaining({ height, kind }));
      }
      expect(report.damagedHeights).toEqual([{ from: 10, to: 18 }]);
    });
  });

  it('takes for damage only what is not there and ought to be, whatever others have removed meanwhile', async () => {
    const { store, url } = await begun();
    await store.commit(batchOf(at(11), at(12)));
    // It learns nothing of what comes later, as one that has not heard of it yet.
    const reader = await postgres.open(url, { isReadOnly: true, create: false });
    await asAdmin(
      url,
      `DELETE FROM flow_store.block WHERE height >= 11;
        UPDATE flow_store.coverage SET to_height = 11`,
    );
    expect(reader.coverage()).toEqual([{ from: 10, to: 12 }]);
    expect(await reader.blockByHeight(12)).toBeUndefined();
    await expect(reader.blockByHeight(11)).rejects.toMatchObject({ kind: 'corrupt' });
  });

  it.each([
    'UPDATE flow_store.coverage SET to_height = 9000000000000000000',
    `INSERT INTO flow_store.plan VALUES (1, -5, 5, 'newest', false)`,
  ])('is damaged where somebody has entered heights that are none (%s)', async (change) => {
    const { store, url } = await begun();
    await asAdmin(url, change);
    const advice = 'are no heights. Somebody has changed that table: put it right, or restore the database';
    await expect(postgres.opening(url)).rejects.toMatchObject(fault('corrupt', advice));
    await until(() => store.trouble()?.includes('are no heights') === true);
  });

  it('is read by commands beside the daemon, and written by none of them', async () => {
    const { url } = await begun();
    const reader = await postgres.open(url, { isReadOnly: true, create: false });
    expect((await reader.transaction(transactionIdsOf(at(10).collections[0]!)[0]!))?.place.height).toBe(10);
    await expect(reader.commit(batchOf(at(11)))).rejects.toThrow(/does not lead/);
    await expect(reader.shared.lead()).rejects.toThrow(/to be read/);
  });
});

/** Ends the server, or where it is somebody else's, all its connections to a database. */
async function cutOff(url: string, machine: PostgresMachine | undefined, isServer: boolean): Promise<void> {
  if (machine === undefined || !isServer) {
    const text = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`;
    await asAdmin(url, text);
    return;
  }
  await machine.kill();
  await machine.start();
}
