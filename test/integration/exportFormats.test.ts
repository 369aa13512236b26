import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { without, type BlockEntry } from '../../src/storage/index.js';
import { duckdb } from '../support/duckdb.js';
import { refusal, RestNode, runInProcess, scratchDirectory, ServedChain } from '../support/index.js';
import { scraped, until, writeStore } from '../support/index.js';
import { blocks, FIRST, LAST, linesOf, useOddExports, type Line } from '../support/oddExports.js';
import { ODD_PAYER } from '../support/oddTransactions.js';
import { storeFlags } from '../support/storeDump.js';

const odd = useOddExports();
const exportPage = readFileSync(new URL('../../docs/export.md', import.meta.url), 'utf8');

/** What `export` has always written: what everything else is compared with. */
let reference: readonly Line[];
let referenceText: string;

beforeAll(async () => {
  const { out } = await odd.run('--quiet');
  const end = out.lastIndexOf('\n', out.length - 2) + 1;
  referenceText = out.slice(0, end);
  reference = linesOf(referenceText);
}, 60_000);

interface Manifest {
  readonly to: number;
  readonly columns: Record<string, readonly string[]>;
  readonly rows: Record<string, number>;
  readonly sha256: string;
  readonly partitions: readonly {
    readonly from: number;
    readonly to: number;
    readonly files: readonly { path: string; rows: number; bytes: number; sha256: string }[];
  }[];
}

const manifestIn = (directory: string) =>
  JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8')) as Manifest;

async function exported(...flags: string[]) {
  const directory = await odd.exported(...flags);
  const manifest = manifestIn(directory);
  return { directory, manifest, files: manifest.partitions.flatMap(({ files }) => files) };
}

const bodyOf = ({ transaction = {} }: Line) => transaction as Line;
const linesOfKind = (wanted: string) => reference.filter(({ kind }) => kind === wanted);

const refused = async (...flags: string[]): Promise<string> => (await odd.run(...flags)).message;

/** The digits of a second behind the point. */
const nanosOf = (rfc3339: unknown): bigint =>
  BigInt((/\.(\d+)Z$/.exec(String(rfc3339))?.[1] ?? '').padEnd(9, '0'));
const micros = (rfc3339: unknown): string => {
  const seconds = BigInt(Date.parse(String(rfc3339).replace(/\.\d+Z$/, 'Z'))) / 1000n;
  return String(seconds * 1_000_000n + nanosOf(rfc3339) / 1000n);
};

it('Parquet has the types that queries want', async () => {
  const { directory, manifest } = await exported('--format', 'parquet', '--compress', 'gzip');
  const from = `from '${directory}/transactions/*.parquet'`;
  const types = await duckdb(`describe select * ${from}`);
  expect(Object.fromEntries(types.map((row) => [row['column_name'], row['column_type']]))).toMatchObject({
    ...{ height: 'BIGINT', timestamp: 'TIMESTAMP WITH TIME ZONE', gas_limit: 'UBIGINT', script: 'VARCHAR' },
    ...{ script_binary: 'BLOB', authorizers: 'VARCHAR[]', arguments_binary: 'BLOB[]' },
  });
  // Row groups that cannot match are passed over by these.
  const count = `select count(*)::int as n ${from}`;
  const large = reference.filter((line) => bodyOf(line)['gas_limit'] === String(2n ** 64n - 1n));
  const found = await duckdb(`${count} where gas_limit > 9223372036854775808::ubigint`);
  expect(found).toEqual([{ n: large.length }]);
  expect(await duckdb(count)).toEqual([{ n: manifest.rows['transactions'] }]);
  // Beside what a partition that is written again leaves for a moment.
  const [one = ''] = readdirSync(join(directory, 'transactions'));
  copyFileSync(join(directory, 'transactions', one), join(directory, 'transactions/transactions-0.parquet'));
  const [, files = '', query = ''] = /^(SET VARIABLE .*)\n(SELECT .*)$/m.exec(exportPage) ?? [];
  const asked = `select sum(n)::int as n from (${query.replace(';', '').replace('count(*)', 'count(*) as n')})`;
  expect(await duckdb(`${files.replaceAll('flow/', `${directory}/`)} ${asked}`)).toEqual([
    { n: manifest.rows['transactions'] },
  ]);
});

it('tables of blocks and collections are what the lines are, in Parquet and CSV', async () => {
  const told = linesOfKind('block').map(({ height, timestamp, collections, ...line }) => ({
    ...{ line, timestamp, of: { height: String(height), timestamp: micros(timestamp) } },
    all: collections as readonly { collection_id: string; transaction_count: number }[],
  }));
  const expectedBlocks = told.map(({ all, line, of, timestamp }) => ({
    ...{ ...of, id: line['block_id'], parent_id: line['parent_id'] },
    ...{ timestamp_nanos: Number(nanosOf(timestamp) % 1000n), collection_count: all.length },
    transaction_count: all.reduce((sum, { transaction_count }) => sum + transaction_count, 0),
  }));
  const expectedCollections = told.flatMap(({ all, line, of }) =>
    all.map(({ collection_id: id, transaction_count }, collection_index) => ({
      ...{ ...of, id, block_id: line['block_id'], collection_index, transaction_count },
    })),
  );
  for (const format of ['parquet', 'csv']) {
    const { directory } = await exported('--format', format, '--partition', '7');
    const from = (table: string): string =>
      format === 'csv' ? `read_csv('${directory}/${table}/*.csv')` : `'${directory}/${table}/*.parquet'`;
    const same = 'epoch_us(timestamp)::varchar as timestamp, height::bigint::varchar as height';
    const rowsOf = (table: string, numbers: readonly string[], order: string) => {
      const whole = numbers.map((name) => `${name}::int as ${name}`).join();
      return duckdb(`select * replace (${same}, ${whole}) from ${from(table)} order by ${order}`);
    };
    const counted = ['timestamp_nanos', 'collection_count', 'transaction_count'];
    expect(await rowsOf('blocks', counted, 'height::bigint')).toEqual(expectedBlocks);
    const placed = ['collection_index', 'transaction_count'];
    const order = 'height::bigint, collection_index';
    expect(await rowsOf('collections', placed, order)).toEqual(expectedCollections);
  }
});

it('lines in partitions are, one after the other, what export to one file is', async () => {
  const { directory, files, manifest } = await exported('--partition', '7', '--compress', 'gzip');
  const all = files.map(({ path }) => gunzipSync(readFileSync(join(directory, path))).toString());
  expect(all.join('') === referenceText).toBe(true);
  // Borders are multiples of 7, whatever the first height is.
  expect(manifest.partitions[0]).toMatchObject({ from: FIRST, to: 97 });
  for (const { from, to } of manifest.partitions.slice(1, -1)) expect([from % 7, to]).toEqual([0, from + 6]);
  expect(manifest.to).toBe(LAST);
  const sums = files.map(({ path, bytes, sha256 }) => {
    const content = readFileSync(join(directory, path));
    expect(content.length).toBe(bytes);
    expect(createHash('sha256').update(content).digest('hex')).toBe(sha256);
    return `${sha256}  ${path}\n`;
  });
  expect(createHash('sha256').update(sums.join('')).digest('hex')).toBe(manifest.sha256);
});

it('--no-scripts, --account, --role and --columns leave out what they say', async () => {
  const read = async (...flags: string[]): Promise<Line[]> => {
    const { directory, files } = await exported(...flags);
    return linesOf(files.map(({ path }) => readFileSync(join(directory, path), 'utf8')).join(''));
  };
  const withoutScripts = reference.map((line) => {
    if (line['kind'] !== 'transaction') return line;
    const { script: _, ...transaction } = bodyOf(line);
    return { ...line, transaction };
  });
  expect(await read('--no-scripts')).toEqual(withoutScripts);

  const ofPayer = reference.filter((line) => bodyOf(line)['payer'] === ODD_PAYER);
  expect(ofPayer.length).toBeGreaterThan(0);
  expect(await read('--account', `0x${ODD_PAYER}`)).toEqual(ofPayer);
  expect(await read('--account', ODD_PAYER, '--role', 'payer')).toEqual(ofPayer);
  expect(await read('--account', ODD_PAYER, '--role', 'authorizer')).toEqual([]);

  const flat = await read('--columns', 'height,id,gas_limit,blocks.id');
  const flatBlocks = linesOfKind('block').map(({ block_id: id }) => ({ kind: 'block', id }));
  expect(flat.filter(({ kind }) => kind === 'block')).toEqual(flatBlocks);
  const flatTransactions = linesOfKind('transaction').map((line) => {
    const { id, gas_limit } = bodyOf(line);
    return { kind: 'transaction', id, height: line['height'], gas_limit };
  });
  expect(flat.filter(({ kind }) => kind === 'transaction')).toEqual(flatTransactions);
  const table = ['--format', 'csv', '--columns', 'transactions.*', '--no-scripts'];
  const { directory, manifest } = await exported(...table);
  expect(Object.keys(manifest.rows)).toEqual(['transactions']);
  const [name = ''] = readdirSync(join(directory, 'transactions'));
  const [head] = readFileSync(join(directory, 'transactions', name), 'utf8').split('\n');
  expect(head).toContain('script_sha256');
  expect(head).not.toMatch(/\bscript\b/);
});

it('docs/export.md has every column, in order', async () => {
  const { manifest } = await exported('--format', 'csv');
  const tables = Object.entries(manifest.columns);
  expect(tables.map(([table]) => table)).toEqual(['blocks', 'collections', 'transactions']);
  for (const [table, columns] of tables) {
    const [, section = ''] = exportPage.split(`### ${table}\n`);
    const [rows = ''] = section.split(/^##/m);
    expect([...rows.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)).toEqual(columns);
  }
});

it('a directory that ends within a partition is taken further, to what one export would have made', async () => {
  const flags = ['--format', 'parquet', '--partition', '7'];
  const whole = await exported(...flags);
  const { directory } = await exported(...flags, '--to', String(FIRST + 9));
  const goOn = () => odd.run('--output', directory, ...flags, '--resume');
  expect((await goOn()).exit).toBe('done');
  expect(manifestIn(directory)).toEqual(whole.manifest);
  for (const table of ['blocks', 'collections', 'transactions'])
    expect(readdirSync(join(directory, table))).toEqual(readdirSync(join(whole.directory, table)));
  expect((await goOn()).err).toContain('is complete: heights');
});

it('a directory is refused where it is not what it was, or something else', async () => {
  const { directory, files, manifest } = await exported('--partition', '7');
  const to = ['--output', directory, '--partition', '7'];
  const resumed = (...more: string[]) => refused(...to, '--resume', ...more);
  expect(await refused(...to)).toMatch(/is not empty\. Add --resume/);
  expect(await resumed('--compress', 'gzip')).toMatch(/begun with --compress "none", not "gzip"/);
  expect(await resumed('--to', '99')).toMatch(/goes to height \d+ already/);
  const path = join(directory, files[0]?.path ?? '');
  const list = join(directory, 'manifest.json');
  const told = (other: object) => writeFileSync(list, JSON.stringify({ ...manifest, ...other }));
  for (const [damage, words] of [
    [
      () => writeFileSync(path, readFileSync(path, 'utf8').replace('height', 'hEight')),
      /does not match manifest\.json/,
    ],
    [() => truncateSync(path, 3), /does not match manifest\.json/],
    [() => rmSync(path), /was changed or removed after it was written/],
    // Of heights that this index does not have, either.
    [
      () => told({ chain_id: 'flow-emulator', from: 1, partitions: [] }),
      /holds an export of flow-emulator, but/,
    ],
    [() => told({ partitions: [null] }), /has no manifest\.json of an/],
    [() => rmSync(list), /has no manifest\.json of an export/],
    [() => mkdirSync(list), /Cannot write .*manifest\.json: it is a directory/],
  ] as const) {
    damage();
    expect(await resumed()).toMatch(words);
  }
});

it.each([
  [['--output', 'x', '--from', '1', '--to', '5'], /is below the first indexed height/],
  [['--format', 'csv'], /writes files into a directory\. Add --output DIRECTORY\.$/],
  [['--role', 'payer'], /Add --account ADDRESS\.$/],
  [['--output', 'x', '--account', 'nobody'], /^invalid address: expected 16 .*, got "nobody"/],
  [['--output', 'x', '--account', ODD_PAYER, '--role', 'king'], /^invalid role: .*, got "king"/],
  [['--output', 'x', '--columns', 'gaslimit'], /Unknown column "gaslimit".*Did you mean gas_limit\?/],
  [['--output', 'x', '--columns', 'script', '--no-scripts'], /leaves none of the --columns/],
  [['--output', 'x', '--format', 'xlsx'], /is not one of ndjson, csv, parquet/],
  [['--output', 'x', '--partition', '0'], /Wrong value for --partition/],
  [['--output', '/proc/nowhere/x', '--format', 'csv'], /Cannot write .*its directory does not exist/],
])('a directory %j is refused', async (flags, message) => {
  const parent = scratchDirectory();
  const elsewhere = flags.map((flag) => (flag === 'x' ? join(parent, 'x') : flag));
  expect(await refused(...elsewhere)).toMatch(message);
  expect(readdirSync(parent)).toEqual([]);
});

describe('what files are made of', () => {
  const exportAt = (port: number, directory: string, ...flags: string[]) =>
    runInProcess(['export', '--api-port', String(port), '--output', directory, '--quiet', ...flags]);

  it.each([['--format', 'parquet'], ['--format', 'csv', '--account', ODD_PAYER], ['--no-scripts']])(
    'is the same from a daemon as from its store: %s %s',
    async (...flags) => {
      const fromStore = await exported(...flags, '--partition', '7');
      const served = await ServedChain.start(blocks, { sealed: null });
      const directory = join(scratchDirectory(), 'files');
      const ran = await exportAt(served.port, directory, ...flags, '--partition', '7');
      expect(ran).toMatchObject({ exit: 'done', message: '' });
      expect(manifestIn(directory).sha256).toBe(fromStore.manifest.sha256);
    },
  );

  it('may be heights of any one range that a daemon has', async () => {
    const served = await ServedChain.start(blocks, { sealed: null });
    const live = FIRST + 4;
    const [below, above] = [{ from: FIRST, to: FIRST + 1 } as const, { from: live, to: LAST } as const];
    served.change({ firstIndexed: live, coverage: [below, above] });
    const directory = scratchDirectory();
    const at = (name: string, ...flags: string[]) => exportAt(served.port, join(directory, name), ...flags);
    expect(await at('live')).toMatchObject({ exit: 'done' });
    expect(await at('history', '--from', String(FIRST), '--to', String(FIRST + 1))).toMatchObject({
      exit: 'done',
    });
    const begins = ['live', 'history'].map((name) => linesOf(readFileSync(join(directory, name), 'utf8'))[0]);
    expect(begins.map((line) => line?.['height'])).toEqual([live, FIRST]);
    const hole = `nothing is indexed at ${FIRST + 2} to ${live - 1}`;
    for (const flags of [[], ['--format', 'csv']])
      expect(await at('both', '--from', String(FIRST), ...flags)).toMatchObject(refusal('not_found', hole));
    expect(readdirSync(directory).sort()).toEqual(['history', 'live']);
  });

  it('may have damaged heights, which are waited for until they are healed', async () => {
    const healing = [{ from: FIRST, to: FIRST }];
    const served = await ServedChain.start(blocks, { sealed: null }, { told: { healing } });
    const whole = { from: FIRST, to: LAST };
    served.change({ healing, coverage: without([whole], healing) });
    const place = join(scratchDirectory(), 'files');
    const ran = exportAt(served.port, place, '--format', 'csv');
    const counted = async () => (await scraped(served.metrics)).series('api_requests_total');
    await until(async () => (await counted()).some(({ labels }) => labels['status'] === '503'));
    served.change({ healing: [], coverage: [whole] });
    expect(await ran).toMatchObject({ exit: 'done' });
    expect(manifestIn(place)).toMatchObject(whole);
  });

  it.each(['ndjson', 'csv'])('of an index that was rewound since is told so: %s', async (format) => {
    const served = await ServedChain.start(blocks, { sealed: null });
    const place = join(scratchDirectory(), 'files');
    expect(await exportAt(served.port, place, '--format', format)).toMatchObject({ exit: 'done' });
    served.change({ latestIndexed: LAST - 2 });
    expect(await exportAt(served.port, place, '--format', format, '--resume')).toMatchObject(
      refusal('not_found', `has height ${LAST}, which the index does not have (again): it is of another`),
    );
  });

  it('does not come from a daemon that does not know how to give blocks as they are stored', async () => {
    const served = await ServedChain.start(blocks, { sealed: null });
    const { port } = await RestNode.start((request, response) => {
      void fetch(`${served.url}${request.url?.replace(/&form=\w+/, '') ?? ''}`).then(async (answer) => {
        response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
        response.end(await answer.text());
      });
    });
    expect(await exportAt(port, join(scratchDirectory(), 'files'), '--format', 'csv')).toMatchObject(
      refusal('no_daemon', 'is an older version that cannot send stored blocks. Upgrade it first.'),
    );
  });

  it('is hashed: a collection that is not what its block guarantees is no row of any file', async () => {
    const damaged = scratchDirectory();
    const at = blocks.findIndex(({ collections }) => collections.length > 1);
    const changed = blocks.map((each, index) =>
      index === at ? { ...each, collections: each.collections.map(swapped) } : each,
    );
    await writeStore(damaged, changed);
    for (const flags of ['--format parquet', '--compress gzip'].map((each) => each.split(' '))) {
      const directory = join(scratchDirectory(), 'files');
      const ran = await runInProcess(['export', ...storeFlags(damaged), '--output', directory, ...flags]);
      expect(ran).toMatchObject(refusal('storage', `collection 1 of height ${FIRST + at}`));
      expect(manifestIn(directory).partitions).toEqual([]);
    }
  });

  /** The second collection has one bit of its bytes changed, within its first transaction's script. */
  function swapped(collection: BlockEntry['collections'][number], place: number) {
    if (place !== 1) return collection;
    const encoded = Buffer.from(collection.encoded);
    const at = (collection.ranges[0] ?? 0) + 4;
    encoded.writeUInt8(encoded.readUInt8(at) ^ 1, at);
    return { ...collection, encoded };
  }
});
