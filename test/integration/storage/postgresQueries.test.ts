import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { encodeTransaction, sha3, type Transaction } from '../../../src/flow/index.js';
import { packageRoot } from '../../../src/runtime/index.js';
import { asAdmin, batchOf, countIn, makeChain, makeCollection, plainChain } from '../../support/index.js';
import { rowsOf, transactionWith, usePostgres } from '../../support/index.js';

const pageAt = (name: string): string => readFileSync(join(packageRoot, 'docs', name), 'utf8');
const queriesOf = (text: string): string[] =>
  [...text.matchAll(/```sql\n([^`]+)```/g)].map(([, sql = '']) => sql);
const page = pageAt('postgresql.md');
const queries = queriesOf(page);
const chain = plainChain(10, 8, 2);

const MAX_UINT64 = 0xffff_ffff_ffff_ffffn;
const address = (text: string): Buffer => sha3(Buffer.from(text)).subarray(0, 8);
const [alice, bob, carol] = [address('alice'), address('bob'), address('carol')] as const;

const with_ = (change: Partial<Transaction>): Uint8Array =>
  encodeTransaction(transactionWith({ payer: alice, authorizers: [alice], ...change }));
/** The same in other bytes: the gas limit first. */
const otherOrder = (): Uint8Array =>
  Buffer.concat([Buffer.from([0x20, 0x8f, 0x4e]), with_({ gasLimit: 0n })]);

const proposed = (keyId: number, sequenceNumber: bigint, gasLimit: bigint): Uint8Array =>
  with_({ gasLimit, proposalKey: { address: bob, keyId, sequenceNumber } });
const longAddress = Buffer.concat([Buffer.alloc(3, 9), bob]);
/** More than are compared one by one. */
const crowd = Array.from({ length: 70 }, (_, index) => address(`${index % 40}`));

const transactions: Readonly<Record<string, Uint8Array>> = {
  usual: with_({}),
  'three people': with_({ payer: bob, authorizers: [carol, alice, bob, carol] }),
  'the largest numbers': proposed(0xffff_ffff, MAX_UINT64, MAX_UINT64),
  'numbers that fill half of their bits': proposed(0x8000_0000, 0xffff_ffffn, 0x8000_0000n),
  'nothing at all': new Uint8Array(),
  'no script': with_({ script: Buffer.alloc(0) }),
  'short and long addresses': with_({ payer: Buffer.of(1, 2), authorizers: [Buffer.of(1, 2), longAddress] }),
  'an empty authorizer': with_({ authorizers: [Buffer.alloc(0), alice] }),
  'many authorizers': with_({ authorizers: crowd }),
  'fields in another order': otherOrder(),
  'the usual script again': with_({ payer: carol }),
  'numbers that end in zeros': proposed(10_000, 1_200_000_000_000n, 10_000n),
  'numbers above what a double holds': proposed(0, 10n ** 19n, 2n ** 53n),
  'a large script': with_({ script: Buffer.alloc(300_000, 'x') }),
};

const postgres = usePostgres();

it('the rows of transactions say what the transactions say, however those are encoded, and have each script once', async () => {
  const all = Object.values(transactions);
  const odd = makeChain(10, [
    [makeCollection(all.slice(0, 5)), makeCollection(all.slice(5))],
    [],
    [makeCollection([with_({ payer: bob })])],
  ]);
  const { store, url } = await postgres.filled(10, odd.slice(0, 1));
  await store.commit(batchOf(...odd.slice(1)));
  const counts = { transactions: all.length + 1, collections: 3 };
  expect(await postgres.verified(url)).toMatchObject({ damages: [], ...counts });
  const numbers = `SELECT gas_limit, sequence_number, proposer_key, encode(payer, 'hex') AS payer FROM flow.transaction
        ORDER BY height, collection_index, transaction_index`;
  const rows = await rowsOf(url, numbers);
  expect(rows[2]).toEqual({
    ...{ gas_limit: String(MAX_UINT64), sequence_number: String(MAX_UINT64) },
    ...{ proposer_key: String(0xffff_ffff), payer: alice.toString('hex') },
  });
  expect(rows[6]).toMatchObject({ payer: '0000000000000102' });
  expect(await countIn(url, 'flow.script')).toBe(3);
});

it('the queries of docs/postgresql.md are ten, and answer from what is covered', async () => {
  const aroundGap = chain.filter(({ block }) => block.height !== 15);
  const { faults, store, url } = await postgres.filledBehindFaults(10, aroundGap, 14);
  expect(queries).toHaveLength(10);
  for (const sql of queries) expect(await rowsOf(url, sql), sql).not.toEqual([]);
  const more = queriesOf(pageAt('data-guide.md'));
  expect(more).toHaveLength(2);
  for (const sql of more) await rowsOf(url, sql);
  const highest = `SELECT (SELECT max(height) FROM flow.block)::integer AS block, (SELECT count(*) FROM flow.transaction)::integer AS
        transactions, (SELECT max(height) FROM flow.collection)::integer AS collection,
        (SELECT max(height) FROM flow.account_transaction)::integer AS account`;
  const shown = await rowsOf(url, highest);
  expect(shown).toEqual([{ block: 14, transactions: 10, collection: 14, account: 14 }]);
  // Of a whole chain, they read no whole table.
  const plans = [
    'max(height) FROM flow.transaction',
    'min(height) FROM flow.block',
    'max(time) FROM flow.block',
  ];
  const ends = plans.map((of) => `(SELECT ${of})`).join();
  const read = JSON.stringify(await rowsOf(url, `EXPLAIN SELECT ${ends}`));
  expect(read.match(/Index (?:Only )?Scan/g)?.length).toBeGreaterThanOrEqual(plans.length);
  expect(read).not.toMatch(/Seq Scan on (?:block|transaction)/);
  // Nor does a lookup, where nothing was analyzed: as after an upgrade of the server.
  await asAdmin(
    url,
    `INSERT INTO flow_store.transaction SELECT 1000 + number, 0, 0, sha256(number::text::bytea), '', '', 0, 0, '{}', '', '', 0, 0, 0
        FROM generate_series(1, 100000) AS number`,
  );
  let lookup = '';
  faults.script = ({ text }) => void (lookup = text.includes('WHERE id = $1') ? text : lookup);
  await store.places('transaction', chain[0]!.block.id, 1);
  const run = `PREPARE lookup AS ${lookup}; EXPLAIN EXECUTE lookup ('\\x00', '{10}', '{14}', 1)`;
  const [, plan] = (await asAdmin(url, run)) as unknown as { readonly rows: unknown[] }[];
  expect(JSON.stringify(plan?.rows)).toContain('transaction_0_id_idx');
});

it('the queries of docs/postgresql.md name every column that the page says there is', async () => {
  const { url } = await postgres.home();
  await postgres.open(url);
  const columnsOfViews = `SELECT table_name AS view, array_agg(column_name::text) AS columns FROM information_schema.columns
        WHERE table_schema = 'flow' GROUP BY table_name`;
  const views = await rowsOf(url, columnsOfViews);
  expect(views).toHaveLength(7);
  for (const { view, columns } of views as { readonly view: string; readonly columns: string[] }[]) {
    const line = page.split('\n').find((each) => each.startsWith(`| \`flow.${view}\``)) ?? '';
    const unnamed = columns.filter((column) => !line.includes(`\`${column}\``));
    expect(unnamed, view).toEqual([]);
  }
});
