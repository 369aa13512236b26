import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { decodeBlock, decodeTransaction, NO_TIME, transactionAt } from '../../src/flow/index.js';
import type { Timestamp } from '../../src/flow/index.js';
import { duckdb } from '../support/duckdb.js';
import { blocks, FIRST, LAST, linesOf, useOddExports, type Line as Row } from '../support/oddExports.js';
import { oddTimes } from '../support/oddTransactions.js';
import { asAdmin, runInProcess, ServedChain, usePostgres } from '../support/index.js';

const { run, exported } = useOddExports();

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const fromBase64 = (text: unknown): string => hex(Buffer.from(String(text), 'base64'));
const address = (bytes: Uint8Array): string => hex(bytes).slice(-16).padStart(16, '0');
const nanosOf = ({ seconds, nanos }: Timestamp): bigint => seconds * 1_000_000_000n + BigInt(nanos);
const nanosIn = (text: unknown): bigint => {
  const [, whole = '', digits = ''] = /^([^.]+?)(?:\.(\d+))?Z$/.exec(String(text)) ?? [];
  return BigInt(Date.parse(`${whole}Z`)) * 1_000_000n + BigInt(digits.padEnd(9, '0'));
};
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const signaturesIn = (row: Row, name: string, bytes: (value: unknown) => string): string[] =>
  (row[name] as readonly Row[]).map(({ address, key_index, signature, extension_data }) =>
    [address, key_index, bytes(signature), bytes(extension_data ?? '')].join(),
  );
const byPlace = (left: { readonly place: string }, right: { readonly place: string }): number =>
  left.place < right.place ? -1 : 1;
const placeOf = (row: Row): string =>
  ['height', 'collection_index', 'transaction_index']
    .map((name) => String(row[name]).padStart(4, '0'))
    .join('/');

/**
 * Everything that the chain says of a transaction and of its block, decoded by nothing that the outputs use to write: bytes as
 * hex, numbers as digits, times in nanoseconds since 1970.
 */
const expected = blocks
  .flatMap(({ block, collections }) => {
    const time = String(nanosOf(decodeBlock(block.encoded).timestamp ?? NO_TIME));
    return collections.flatMap((collection, collection_index) =>
      Array.from({ length: collection.ranges.length / 2 }, (_, transaction_index) => {
        const { id, wire } = transactionAt(collection, transaction_index);
        const body = decodeTransaction(wire);
        const signatures = (all: typeof body.payloadSignatures): string[] =>
          all.map((each) =>
            [address(each.address), each.keyId, hex(each.signature), hex(each.extensionData)].join(),
          );
        return {
          ...{
            place: placeOf({ height: block.height, collection_index, transaction_index }),
            id: String(id),
          },
          ...{ time, block_id: String(block.id), payer: address(body.payer) },
          proposer: address(body.proposalKey?.address ?? Buffer.alloc(0)),
          key_index: String(body.proposalKey?.keyId ?? 0),
          sequence_number: String(body.proposalKey?.sequenceNumber ?? 0),
          authorizers: body.authorizers.map(address),
          reference_block_id: hex(body.referenceBlockId).slice(0, 64).padEnd(64, '0'),
          ...{ gas_limit: String(body.gasLimit), script: hex(body.script) },
          script_sha256: sha256(body.script),
          arguments: body.arguments.map(hex),
          payload_signatures: signatures(body.payloadSignatures),
          envelope_signatures: signatures(body.envelopeSignatures),
        };
      }),
    );
  })
  .sort(byPlace);
type Value = (typeof expected)[number];

/** What Flow's REST form of a transaction says; lines of `export` have it too. */
function fromRest(body: Row): Omit<Value, 'place' | 'block_id' | 'time'> {
  const key = body['proposal_key'] as Row;
  return {
    ...(body as { id: string; payer: string; reference_block_id: string; gas_limit: string }),
    ...{ proposer: String(key['address']), key_index: String(key['key_index']) },
    sequence_number: String(key['sequence_number']),
    authorizers: body['authorizers'] as string[],
    script: fromBase64(body['script']),
    script_sha256: sha256(Buffer.from(String(body['script']), 'base64')),
    arguments: (body['arguments'] as unknown[]).map(fromBase64),
    payload_signatures: signaturesIn(body, 'payload_signatures', fromBase64),
    envelope_signatures: signaturesIn(body, 'envelope_signatures', fromBase64),
  };
}

/** A row of the table "transactions", of any format: only its text, numbers and bytes differ, as told. */
function fromTable(row: Row, bytes: (value: unknown) => string, nanos: ReadonlyMap<string, bigint>): Value {
  const text = (value: unknown): string => hex(Buffer.from(String(value)));
  const list = (name: string): readonly unknown[] => row[name] as readonly unknown[];
  const height = String(row['height']);
  return {
    ...{ place: placeOf(row), id: String(row['id']), block_id: String(row['block_id']) },
    time: String((row['timestamp'] as bigint) * 1000n + nanos.get(height)!),
    ...{ payer: String(row['payer']), proposer: String(row['proposer']) },
    key_index: String(row['proposer_key_index']),
    sequence_number: String(row['proposer_sequence_number']),
    authorizers: list('authorizers') as string[],
    ...{ reference_block_id: String(row['reference_block_id']), gas_limit: String(row['gas_limit']) },
    script: row['script'] === null ? bytes(row['script_binary']) : text(row['script']),
    script_sha256: String(row['script_sha256']),
    arguments: row['arguments'] === null ? list('arguments_binary').map(bytes) : list('arguments').map(text),
    payload_signatures: signaturesIn(row, 'payload_signatures', bytes),
    envelope_signatures: signaturesIn(row, 'envelope_signatures', bytes),
  };
}

const postgres = usePostgres();

it('hold everything that is hard to say', () => {
  expect(oddTimes).toContain(undefined);
  expect(oddTimes).toContainEqual(NO_TIME);
  expect(new Set(expected.map(({ time }) => time)).size).toBe(oddTimes.length - 1);
  expect(expected.some((value) => value.authorizers.length === 0)).toBe(true);
  expect(expected.some((value) => value.gas_limit === String(2n ** 64n - 1n))).toBe(true);
  expect(expected.some((value) => value.reference_block_id.endsWith('00'))).toBe(true);
});

it('are the same over REST, as on an access node', async () => {
  const served = await ServedChain.start(blocks, { sealed: LAST });
  const found: Value[] = [];
  for (const { block, collections } of blocks) {
    const answer = await served.get(`/v1/blocks?height=${block.height}`);
    const [{ header }] = answer.body as [{ header: { id: string; timestamp: string } }];
    for (const [collection_index, { id }] of collections.entries()) {
      const { body } = await served.get(`/v1/collections/${id}?expand=transactions`);
      for (const [transaction_index, each] of (body as { transactions: Row[] }).transactions.entries())
        found.push({
          place: placeOf({ height: block.height, collection_index, transaction_index }),
          ...{ block_id: header.id, time: String(nanosIn(header.timestamp)), ...fromRest(each) },
        });
    }
  }
  expect(found.map(only)).toEqual(expected);
  const withoutTime = FIRST + oddTimes.indexOf(undefined);
  const [{ header }] = (await served.get(`/v1/blocks?height=${withoutTime}`)).body as [{ header: Row }];
  expect(header['timestamp']).toBe('0001-01-01T00:00:00Z');
});

it('are the same in lines of export, from either store', async () => {
  const { out } = await run('--quiet');
  const found = linesOf(out)
    .filter(({ kind }) => kind === 'transaction')
    .map((line) => ({
      ...{ place: placeOf(line), block_id: String(line['block_id']) },
      ...{ time: String(nanosIn(line['timestamp'])), ...fromRest(line['transaction'] as Row) },
    }));
  expect(found.map(only)).toEqual(expected);
  const { url } = await postgres.filled(FIRST, blocks);
  const fromDatabase = await runInProcess(['export', '--network', 'devnet', '--store', url, '--quiet']);
  expect(fromDatabase.out === out).toBe(true);
});

it('are the same in CSV, in flat lines of JSON and in Parquet', async () => {
  const columns = 'transactions.*,blocks.height,blocks.timestamp,blocks.timestamp_nanos';
  const flat = await exported('--columns', columns);
  const name = `lines-${padded(FIRST)}-${padded(LAST)}.ndjson`;
  const lines = linesOf(readFileSync(join(flat, 'lines', name), 'utf8'));
  const flatBlocks = lines.filter(({ kind }) => kind === 'block');
  const nanos = new Map(
    flatBlocks.map((line) => [String(line['height']), BigInt(Number(line['timestamp_nanos']))]),
  );
  expect(nanos.size).toBe(blocks.length);
  const fromText = (row: Row): Value =>
    fromTable({ ...row, timestamp: nanosIn(row['timestamp']) / 1000n }, fromBase64, nanos);
  const flatRows = lines.filter(({ kind }) => kind === 'transaction');
  expect(flatRows.map(fromText).sort(byPlace).map(only)).toEqual(expected);

  const names = Object.keys(flatRows[0] ?? {}).filter((name) => name !== 'kind');
  const csv = await exported('--format', 'csv', '--compress', 'gzip');
  const texts = ['authorizers', 'arguments', 'arguments_binary'];
  const listed = [...texts, 'payload_signatures', 'envelope_signatures'];
  const csvRows = (await duckdb(
    `select * replace (hex(script) as script) from read_csv('${csv}/transactions/*.csv.gz', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"',
         new_line = '\\n', allow_quoted_nulls = false, columns = {${names.map((name) => `'${name}': 'VARCHAR'`).join()}})`,
  )) as Record<string, string | null>[];
  const parsed = csvRows.map((row) => ({
    ...row,
    script: (row['script'] ?? null) === null ? null : Buffer.from(row['script'] ?? '', 'hex').toString(),
    ...Object.fromEntries(listed.map((name) => [name, JSON.parse(row[name] ?? 'null') as unknown])),
  }));
  expect(parsed.map(fromText).sort(byPlace).map(only)).toEqual(expected);

  const parquet = await exported('--format', 'parquet', '--partition', '7');
  const inHex = (name: string): string =>
    `list_transform(${name}, s -> {'address': s.address, 'key_index': s.key_index, 'signature': hex(s.signature), 'extension_data': hex(s.extension_data)}) as ${name}`;
  const parquetRows = await duckdb(
    `select * replace (epoch_us(timestamp)::varchar as timestamp, height::varchar as height, hex(script) as script, hex(script_binary) as script_binary,
         list_transform(arguments_binary, b -> hex(b)) as arguments_binary, ${inHex('payload_signatures')}, ${inHex('envelope_signatures')})
       from '${parquet}/transactions/*.parquet'`,
  );
  const fromParquet = (row: Row): Value => {
    const script = row['script'] === null ? null : Buffer.from(row['script'] as string, 'hex').toString();
    const read = { ...row, timestamp: BigInt(String(row['timestamp'])), script };
    return fromTable(read, (value) => String(value).toLowerCase(), nanos);
  };
  expect(parquetRows.map(fromParquet).sort(byPlace).map(only)).toEqual(expected);
});

it('are the same in SQL, but for what its tables do not hold', async () => {
  const { store, url } = await postgres.filled(FIRST, blocks);
  const everything = `SELECT t.height, collection_index, transaction_index, encode(t.id, 'hex') AS id, encode(b.id, 'hex') AS block_id,
         (extract(epoch FROM b.time) * 1000000)::bigint AS micros, encode(payer, 'hex') AS payer, encode(proposer, 'hex') AS proposer,
         proposer_key AS key_index, sequence_number, authorizers::text AS authorizers, encode(reference_block_id, 'hex') AS reference_block_id,
         gas_limit, encode(s.body, 'hex') AS script, encode(s.hash, 'hex') AS script_sha256
       FROM flow.transaction t JOIN flow.block b USING (height) JOIN flow.script s ON s.hash = t.script_hash`;
  const { rows } = await asAdmin(url, everything);
  const found = (rows as Record<string, unknown>[]).map((row) => ({
    place: placeOf(row),
    ...Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])),
    authorizers: [...String(row['authorizers']).matchAll(/x([0-9a-f]{16})/g)].map(([, each]) => each),
  }));
  // A timestamp of PostgreSQL has microseconds. Arguments and signatures are in the bodies alone.
  const wanted = expected.map(
    ({ time, arguments: _, payload_signatures: __, envelope_signatures: ___, ...value }) => {
      const places = value.place.split('/').map((part) => String(Number(part)));
      const [height, collection_index, transaction_index] = places;
      const nanos = BigInt(time);
      const micros = String((nanos - (((nanos % 1000n) + 1000n) % 1000n)) / 1000n);
      return { ...value, ...{ height, collection_index, transaction_index, micros } };
    },
  );
  expect(found.sort(byPlace)).toEqual(wanted);
  const withoutTime = `SELECT count(*) FILTER (WHERE time IS NULL)::int AS none, count(*) FILTER (WHERE time = '0001-01-01 00:00:00Z')::int AS zero FROM flow.block`;
  const odd = await asAdmin(url, withoutTime);
  const zeros = blocks.filter(
    ({ block }) => nanosOf(decodeBlock(block.encoded).timestamp ?? NO_TIME) === nanosOf(NO_TIME),
  );
  expect(odd.rows).toEqual([{ none: 0, zero: zeros.length }]);

  // As older builds wrote them: still sound. A time that is lost is not.
  await store.close();
  const verify = () => runInProcess(['verify', '--network', 'devnet', '--store', url]);
  const asBefore = `UPDATE flow_store.block SET time = NULL WHERE time = '0001-01-01 00:00:00Z';
       UPDATE flow_store.transaction SET reference_block_id = substr(reference_block_id, 1, 20) WHERE reference_block_id = '\\x${'cd'.repeat(20)}${'00'.repeat(12)}'`;
  await asAdmin(url, asBefore);
  expect(await verify()).toMatchObject({ exit: 'done' });
  await asAdmin(url, `UPDATE flow_store.block SET time = NULL WHERE height = ${FIRST}`);
  expect(await verify()).toMatchObject({ exit: 'damage' });
});

function only(value: Value): Value {
  const names = Object.keys(expected[0] ?? {}) as (keyof Value)[];
  return Object.fromEntries(names.map((name) => [name, value[name]])) as unknown as Value;
}

const padded = (height: number): string => String(height).padStart(12, '0');
