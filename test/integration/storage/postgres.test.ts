import { expect, it, vi } from 'vitest';
import { lastingPort } from '../../support/lastingPort.js';
import { asAdmin, batchOf, countIn, fault, plainChain, refusal } from '../../support/index.js';
import { transactionIdsOf, until, usePostgres, type PostgresMachine } from '../../support/index.js';

const chain = plainChain(10, 40, 2);
const at = (height: number) => chain[height - 10]!;

vi.setConfig({ testTimeout: 120_000 });
const postgres = usePostgres({ isOwn: true });

const begun = () => postgres.filled(10, [at(10)]);

const countOf = (url: string, table: string) => countIn(url, `flow_store.${table}`);

it('refuses rows that are there already, though the queue and the fence would let them pass', async () => {
  const { store, url } = await begun();
  const row = `INSERT INTO flow_store.body SELECT 11, chunk, value FROM flow_store.body WHERE height = 10`;
  await asAdmin(url, row);
  await expect(store.commit(batchOf(at(11)))).rejects.toMatchObject({ kind: 'corrupt' });
  expect(await countOf(url, 'block')).toBe(1);
});

it('goes on by itself when the server was killed, whatever it was doing', async () => {
  // `undefined` where it is somebody else's.
  const { machine } = postgres.server();
  const { store, url } = await begun();
  for (let height = 11; height < 41; height += 1) {
    const committed = store.commit(batchOf(at(height)));
    if (height % 6 === 0) await cutOff(url, height % 12 === 0 ? machine : undefined);
    await committed;
  }
  expect(store.latestIndexedHeight()).toBe(40);
  for (const table of ['block', 'collection']) expect(await countOf(url, table)).toBe(31);
  expect(await countOf(url, 'transaction')).toBe(62);
  await store.close();
  const again = await postgres.open(url);
  expect(again.coverage()).toEqual([{ from: 10, to: 40 }]);
  for (let height = 10; height < 41; height += 1)
    expect((await again.blockByHeight(height))?.block.id).toBe(at(height).block.id);
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
  const set = async (what: string) => {
    const elsewhere = new URL('/postgres', url).href;
    await asAdmin(elsewhere, `ALTER DATABASE ${new URL(url).pathname.slice(1)} ${what}`);
    await cutOff(url);
  };
  await set('SET default_transaction_read_only = on');
  const commit = store.commit(batchOf(at(11)));
  await until(() => store.trouble()?.includes('read-only') === true);
  expect((await store.blockByHeight(10))?.block.id).toBe(at(10).block.id);
  expect(store.trouble()).toContain('It takes no writes now');
  await set('RESET default_transaction_read_only');
  await commit;
  await until(() => store.trouble() === undefined);
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
});

it('can be closed while the database is away', async () => {
  const { faults, store } = await postgres.filledBehindFaults(10);
  await faults.down();
  const commit = store.commit(batchOf(at(10)));
  const refused = expect(commit).rejects.toMatchObject({ kind: 'unavailable' });
  await store.close();
  await refused;
});

const { opening } = postgres;

it('is refused with a sentence: where nobody answers', async () => {
  const url = `postgres://somebody:secret@127.0.0.1:${await lastingPort()}/flow`;
  await expect(opening(url)).rejects.toMatchObject({ kind: 'unavailable', exit: 'storage' });
  const failure: unknown = await opening(url).catch((error: unknown) => error);
  expect(String(failure)).not.toMatch(/secret|somebody/);
});

it('is refused with a sentence: a database that does not exist, and a server without TLS where TLS is asked for', async () => {
  const { url } = await postgres.home();
  const other = new URL('/no_such_database', url).href;
  await expect(opening(other)).rejects.toMatchObject(fault('missing', /createdb/));
  await expect(opening(`${url}?sslmode=verify-full`)).rejects.toThrow('SSL');
});

it.each([
  ['postgres://host/', /names no database/],
  ['postgres://host/a%ZZ', /has a % that encodes no character: write %25 for the sign itself/],
  ['http://host/flow', /not a database URL/],
  ['postgres://host/flow?sslmode=prefer', /unchecked connection/],
  ['postgres://host/flow?sslmode=verify-full&sslrootcert=/no/such/file', /cannot be read/],
  ['postgres://host/flow?password=secret', /not known/],
])('is refused with a sentence: the URL %s', async (url, message) => {
  await expect(opening(url)).rejects.toMatchObject(refusal('configuration', message));
});

it('takes for damage only what is not there and ought to be, whatever others have removed meanwhile', async () => {
  const { store, url } = await begun();
  await store.commit(batchOf(at(11), at(12)));
  // It learns nothing of what comes later, as one that has not heard of it yet.
  const reader = await postgres.open(url, { isReadOnly: true, create: false });
  const removed = `DELETE FROM flow_store.block WHERE height >= 11;
        UPDATE flow_store.coverage SET to_height = 11`;
  await asAdmin(url, removed);
  expect(reader.coverage()).toEqual([{ from: 10, to: 12 }]);
  expect(await reader.blockByHeight(12)).toBeUndefined();
  await expect(reader.blockByHeight(11)).rejects.toMatchObject({ kind: 'corrupt' });
});

it.each([
  // Whoever leads looks at all but the end of the live range.
  'INSERT INTO flow_store.coverage VALUES (1, 9000000000000000000)',
  `INSERT INTO flow_store.plan VALUES (1, -5, 5, 'newest', false)`,
])('is damaged where somebody has entered heights that are none (%s)', async (change) => {
  const { store, url } = await begun();
  await asAdmin(url, change);
  const advice = 'are no heights. That table was changed from outside: correct it, or restore the database';
  await expect(postgres.opening(url)).rejects.toMatchObject(fault('corrupt', advice));
  await until(() => store.trouble()?.includes('are no heights') === true);
});

it('is read by commands beside the daemon, and written by none of them', async () => {
  const { url } = await begun();
  const reader = await postgres.open(url, { isReadOnly: true, create: false });
  expect((await reader.item('transaction', transactionIdsOf(at(10).collections[0]!)[0]!))?.place.height).toBe(
    10,
  );
  await expect(reader.commit(batchOf(at(11)))).rejects.toThrow(/does not lead/);
  await expect(reader.shared.lead()).rejects.toThrow(/to be read/);
});

/** Ends a server of ours, or else all connections to a database. */
async function cutOff(url: string, machine?: PostgresMachine): Promise<void> {
  const others = 'datname = current_database() AND pid <> pg_backend_pid()';
  await (machine?.kill() ??
    asAdmin(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${others}`));
  await machine?.start();
}
