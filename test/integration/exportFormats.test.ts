import { createHash } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import type { BlockEntry } from '../../src/storage/index.js';
import { duckdb } from '../support/duckdb.js';
import { writeStore } from '../support/chainReference.js';
import { blocks, FIRST, LAST, linesOf, useOddExports } from '../support/oddExports.js';
import type { Line } from '../support/oddExports.js';
import { ODD_PAYER } from '../support/oddTransactions.js';
import { scratchDirectory } from '../support/program.js';
import { refusal } from '../support/refusal.js';
import { RestNode } from '../support/restNode.js';
import { ServedChain } from '../support/servedChain.js';
import { storeFlags } from '../support/storeDump.js';
import { runInProcess } from '../support/terminal.js';

const odd = useOddExports();

interface TransactionBody extends Readonly<Record<string, unknown>> {
  readonly script: string;
  readonly arguments: readonly string[];
  readonly authorizers: readonly string[];
  readonly proposal_key: Readonly<Record<string, string>>;
  readonly payload_signatures: readonly Readonly<Record<string, string>>[];
  readonly envelope_signatures: readonly Readonly<Record<string, string>>[];
}

/** What `export` has always written: what everything else is compared with. */
let reference: readonly Line[];
let referenceText: string;

beforeAll(async () => {
  const { out } = await odd.run('--quiet');
  const end = out.lastIndexOf('\n', out.length - 2) + 1;
  referenceText = out.slice(0, end);
  reference = linesOf(referenceText);
}, 60_000);

interface Files {
  readonly directory: string;
  readonly manifest: {
    readonly to: number;
    readonly columns: Record<string, readonly string[]>;
    readonly rows: Record<string, number>;
    readonly sha256: string;
    readonly partitions: readonly {
      readonly from: number;
      readonly to: number;
      readonly files: readonly { path: string; rows: number; bytes: number; sha256: string }[];
    }[];
  };
}

function manifestIn(directory: string): Files['manifest'] {
  return JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8')) as Files['manifest'];
}

async function exported(...flags: string[]): Promise<Files> {
  const directory = await odd.exported(...flags);
  return { directory, manifest: manifestIn(directory) };
}

const refused = async (...flags: string[]): Promise<string> => (await odd.run(...flags)).message;

/** The digits of a second behind the point. */
const nanosOf = (rfc3339: unknown): bigint =>
  BigInt((/\.(\d+)Z$/.exec(String(rfc3339))?.[1] ?? '').padEnd(9, '0'));
const micros = (rfc3339: unknown): string => {
  const seconds = BigInt(Date.parse(String(rfc3339).replace(/\.\d+Z$/, 'Z'))) / 1000n;
  return String(seconds * 1_000_000n + nanosOf(rfc3339) / 1000n);
};

describe('files of other formats', () => {
  // That they hold what the lines hold: valuesAcrossOutputs.test.ts.
  it('Parquet has the types that queries want', async () => {
    const { directory, manifest } = await exported('--format', 'parquet', '--compress', 'gzip');
    const from = `from '${directory}/transactions/*.parquet'`;
    const types = await duckdb(`describe select * ${from}`);
    expect(Object.fromEntries(types.map((row) => [row['column_name'], row['column_type']]))).toMatchObject({
      ...{ height: 'BIGINT', timestamp: 'TIMESTAMP WITH TIME ZONE', gas_limit: 'UBIGINT', script: 'VARCHAR' },
      ...{ script_binary: 'BLOB', authorizers: 'VARCHAR[]', arguments_binary: 'BLOB[]' },
    });
    // Row groups that cannot match are passed over by these.
    const large = await duckdb(
      `select count(*)::int as n ${from} where gas_limit > 9223372036854775808::ubigint`,
    );
    const isLarge = ({ transaction }: Line): boolean =>
      (transaction as TransactionBody | undefined)?.['gas_limit'] === String(2n ** 64n - 1n);
    expect(large).toEqual([{ n: reference.filter(isLarge).length }]);
    const all = await duckdb(`select count(*)::int as n ${from}`);
    expect(all).toEqual([{ n: manifest.rows['transactions'] }]);
  });

  it('tables of blocks and collections are what the lines are, in Parquet and CSV', async () => {
    const expectedBlocks = reference
      .filter(({ kind }) => kind === 'block')
      .map(({ height, block_id, parent_id, timestamp, collections }) => {
        const all = collections as readonly { readonly transaction_count: number }[];
        return {
          ...{
            height: String(height),
            id: block_id,
            parent_id,
            timestamp: micros(timestamp),
            timestamp_nanos: Number(nanosOf(timestamp) % 1000n),
          },
          collection_count: all.length,
          transaction_count: all.reduce((sum, { transaction_count }) => sum + transaction_count, 0),
        };
      });
    const expectedCollections = reference
      .filter(({ kind }) => kind === 'block')
      .flatMap(({ height, block_id, timestamp, collections }) =>
        (collections as readonly { collection_id: string; transaction_count: number }[]).map(
          ({ collection_id, transaction_count }, collection_index) => ({
            ...{ id: collection_id, height: String(height), block_id, timestamp: micros(timestamp) },
            ...{ collection_index, transaction_count },
          }),
        ),
      );
    for (const format of ['parquet', 'csv']) {
      const { directory } = await exported('--format', format, '--partition', '7');
      const from = (table: string): string =>
        format === 'csv' ? `read_csv('${directory}/${table}/*.csv')` : `'${directory}/${table}/*.parquet'`;
      const same = 'epoch_us(timestamp)::varchar as timestamp, height::bigint::varchar as height';
      const counts = 'collection_count::int as collection_count, transaction_count::int as transaction_count';
      expect(
        await duckdb(
          `select * replace (${same}, ${counts}, timestamp_nanos::int as timestamp_nanos) from ${from('blocks')} order by height::bigint`,
        ),
      ).toEqual(expectedBlocks);
      expect(
        await duckdb(
          `select * replace (${same}, collection_index::int as collection_index, transaction_count::int as transaction_count)
           from ${from('collections')} order by height::bigint, collection_index`,
        ),
      ).toEqual(expectedCollections);
    }
  });

  it('lines in partitions are, one after the other, what export to one file is', async () => {
    const { directory, manifest } = await exported('--partition', '7', '--compress', 'gzip');
    const files = manifest.partitions.flatMap(({ files }) => files);
    const all = files.map(({ path }) => gunzipSync(readFileSync(join(directory, path))).toString());
    expect(all.join('') === referenceText).toBe(true);
    // Borders are multiples of 7, whatever the first height is.
    expect(manifest.partitions[0]).toMatchObject({ from: FIRST, to: 97 });
    expect(manifest.partitions.slice(1, -1).every(({ from, to }) => from % 7 === 0 && to === from + 6)).toBe(
      true,
    );
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
      const { directory, manifest } = await exported(...flags);
      const files = manifest.partitions.flatMap(({ files }) => files);
      return linesOf(files.map(({ path }) => readFileSync(join(directory, path), 'utf8')).join(''));
    };
    const withoutScripts = reference.map((line) => {
      if (line['kind'] !== 'transaction') return line;
      const { script: _, ...transaction } = line['transaction'] as TransactionBody;
      return { ...line, transaction };
    });
    expect(await read('--no-scripts')).toEqual(withoutScripts);

    const ofPayer = reference.filter(
      (line) => (line['transaction'] as TransactionBody | undefined)?.['payer'] === ODD_PAYER,
    );
    expect(ofPayer.length).toBeGreaterThan(0);
    expect(await read('--account', `0x${ODD_PAYER}`)).toEqual(ofPayer);
    expect(await read('--account', ODD_PAYER, '--role', 'payer')).toEqual(ofPayer);
    expect(await read('--account', ODD_PAYER, '--role', 'authorizer')).toEqual([]);

    const flat = await read('--columns', 'height,id,gas_limit,blocks.id');
    const blockLines = reference.filter(({ kind }) => kind === 'block');
    expect(flat.filter(({ kind }) => kind === 'block')).toEqual(
      blockLines.map(({ block_id }) => ({ kind: 'block', id: block_id })),
    );
    expect(flat.filter(({ kind }) => kind === 'transaction')).toEqual(
      reference
        .filter(({ kind }) => kind === 'transaction')
        .map(({ height, transaction }) => {
          const { id, gas_limit } = transaction as TransactionBody;
          return { kind: 'transaction', id, height, gas_limit };
        }),
    );
    const table = ['--format', 'csv', '--columns', 'transactions.*', '--no-scripts'];
    const { directory, manifest } = await exported(...table);
    expect(Object.keys(manifest.rows)).toEqual(['transactions']);
    const [name = ''] = readdirSync(join(directory, 'transactions'));
    const [head] = readFileSync(join(directory, 'transactions', name), 'utf8').split('\n');
    expect(head).toContain('script_sha256');
    expect(head).not.toMatch(/\bscript\b/);
  });
});

it('docs/export.md has every column, in order', async () => {
  const page = readFileSync(new URL('../../docs/export.md', import.meta.url), 'utf8');
  const { manifest } = await exported('--format', 'csv');
  const tables = Object.entries(manifest.columns);
  expect(tables.map(([table]) => table)).toEqual(['blocks', 'collections', 'transactions']);
  for (const [table, columns] of tables) {
    const [, section = ''] = page.split(`### ${table}\n`);
    const [rows = ''] = section.split(/^##/m);
    expect([...rows.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)).toEqual(columns);
  }
});

describe('a directory', () => {
  it('that ends within a partition is taken further, to what one export would have made', async () => {
    const flags = ['--format', 'parquet', '--partition', '7'];
    const whole = await exported(...flags);
    const { directory } = await exported(...flags, '--to', String(FIRST + 9));
    const goOn = () => odd.run('--output', directory, ...flags, '--resume');
    expect((await goOn()).exit).toBe('done');
    expect(manifestIn(directory)).toEqual(whole.manifest);
    for (const table of ['blocks', 'collections', 'transactions']) {
      expect(readdirSync(join(directory, table))).toEqual(readdirSync(join(whole.directory, table)));
    }
    expect((await goOn()).err).toContain('is complete: heights');
  });

  it('is refused where it is not what it was, or something else', async () => {
    const { directory, manifest } = await exported('--partition', '7');
    const to = ['--output', directory, '--partition', '7'];
    expect(await refused(...to)).toMatch(/is not empty\. Add --resume/);
    expect(await refused(...to, '--resume', '--compress', 'gzip')).toMatch(
      /begun with --compress "none", not "gzip"/,
    );
    expect(await refused(...to, '--resume', '--to', '99')).toMatch(/goes to height \d+ already/);
    const [file] = manifest.partitions[0]?.files ?? [];
    const path = join(directory, file?.path ?? '');
    const content = readFileSync(path);
    writeFileSync(path, content.toString().replace('height', 'hEight'));
    expect(await refused(...to, '--resume')).toMatch(/does not match manifest\.json/);
    truncateSync(path, 3);
    expect(await refused(...to, '--resume')).toMatch(/does not match manifest\.json/);
    rmSync(path);
    expect(await refused(...to, '--resume')).toMatch(/was changed or removed after it was written/);
    const list = join(directory, 'manifest.json');
    writeFileSync(list, JSON.stringify({ ...manifest, partitions: [null] }));
    expect(await refused(...to, '--resume')).toMatch(/has no manifest\.json of an export/);
    rmSync(list);
    expect(await refused(...to, '--resume')).toMatch(/has no manifest\.json of an export/);
    mkdirSync(list);
    expect(await refused(...to, '--resume')).toMatch(/Cannot write .*manifest\.json: it is a directory/);
  });

  it.each([
    [['--output', 'x', '--format', 'csv', '--from', '1', '--to', '5'], /is below the first indexed height/],
    [['--format', 'csv'], /writes files into a directory\. Add --output DIRECTORY\.$/],
    [['--role', 'payer'], /Add --account ADDRESS\.$/],
    [['--output', 'x', '--account', 'nobody'], /^invalid address: expected 16 .*, got "nobody"/],
    [
      ['--output', 'x', '--account', ODD_PAYER, '--role', 'king'],
      /^invalid role: expected payer, .*, got "king"/,
    ],
    [['--output', 'x', '--columns', 'gaslimit'], /Unknown column "gaslimit".*Did you mean gas_limit\?/],
    [['--output', 'x', '--columns', 'script', '--no-scripts'], /leaves none of the --columns/],
    [['--output', 'x', '--format', 'xlsx'], /is not one of ndjson, csv, parquet/],
    [['--output', 'x', '--partition', '0'], /Wrong value for --partition/],
    [['--output', '/proc/nowhere/x', '--format', 'csv'], /Cannot write .*its directory does not exist/],
  ])('%j is refused', async (flags, message) => {
    // Where a directory is made before the refusal, it is one of the test's own.
    const elsewhere = flags.map((flag) => (flag === 'x' ? join(scratchDirectory(), 'x') : flag));
    expect(await refused(...elsewhere)).toMatch(message);
  });
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
    const damaged = mkdtempSync(join(scratchDirectory(), 'damaged-'));
    const at = blocks.findIndex(({ collections }) => collections.length > 1);
    const changed = blocks.map(({ block, collections }, index) =>
      index === at
        ? { block, collections: collections.map((each, place) => swapped(each, place)) }
        : { block, collections },
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
