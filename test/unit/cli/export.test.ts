import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { programVersion } from '../../../src/app/index.js';
import { loadParquet } from '../../../src/cli/export/index.js';
import { ChainGenerator } from '../../../src/devnet/index.js';
import {
  blocksOf,
  chainOf,
  eventually,
  matching,
  refusal,
  RestNode,
  runInProcess,
} from '../../support/index.js';
import { scratchDirectory, ServedChain, transactionWith } from '../../support/index.js';
import { filledDirectory, storeFlags, storePath, withStore, type Ran } from '../../support/index.js';
import { linesOf, type Line } from '../../support/oddExports.js';

const FIRST = 100;
const LAST = 112;
const MIDDLE = 106;

const chain = new ChainGenerator({ seed: 5, rootHeight: FIRST, profile: 'mixed' });

function fill(directory: string, generator: ChainGenerator): Promise<string> {
  return filledDirectory({ chain: generator, from: FIRST, to: LAST }, directory);
}

let dataDir: string;
let whole: Buffer;

const run = (...args: string[]): Promise<Ran> => runOn(dataDir, '--quiet', ...args);
const runOn = (dir: string, ...args: string[]) => runInProcess(['export', ...storeFlags(dir), ...args]);

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'fci-export-'));
  await fill(dataDir, chain);
  whole = Buffer.from((await run()).out);
});

afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

/** The closing line speaks of exactly what stands above it. */
function expectClosed(text: string): Line {
  const above = text.slice(0, text.lastIndexOf('\n', text.length - 2) + 1);
  const closing = linesOf(text).at(-1)!;
  expect(closing).toMatchObject({
    kind: 'end',
    format: 1,
    program: `flow-collection-indexer ${programVersion}`,
    bytes: Buffer.byteLength(above),
    sha256: createHash('sha256').update(above).digest('hex'),
  });
  return closing;
}

function cutFile(bytes: Uint8Array): string {
  const path = join(scratchDirectory(), 'cut.ndjson');
  writeFileSync(path, bytes);
  return path;
}

it('an export has a line for each block and each of its transactions, in order, and says what it holds', () => {
  const lines = linesOf(whole.toString());
  const expected = blocksOf(chain, FIRST, LAST).flatMap(({ id, parentId, height, collections }) => [
    {
      ...{ kind: 'block', height, block_id: id, parent_id: parentId },
      timestamp: matching(/^\d{4}-.*Z$/),
      collections: collections.map((collection) => ({
        collection_id: collection.id,
        transaction_count: collection.transactions.length,
      })),
    },
    ...collections.flatMap((collection, collection_index) =>
      collection.transactions.map((_, transaction_index) => ({
        ...{ kind: 'transaction', height, block_id: id, collection_id: collection.id },
        ...{ collection_index, transaction_index },
        transaction: expect.objectContaining({
          id: collection.transactionIds.toString('hex').match(/.{64}/g)![transaction_index],
        }) as object,
      })),
    ),
  ]);
  expect(lines.slice(0, -1)).toMatchObject(expected);
  // Among them, blocks that hold nothing.
  expect(expected.filter((line) => 'collections' in line && line.collections.length === 0)).not.toEqual([]);
  expect(expectClosed(whole.toString())).toMatchObject({
    ...{ chain_id: 'flow-localnet', from: FIRST, to: LAST, blocks: LAST - FIRST + 1 },
    transactions: expected.filter(({ kind }) => kind === 'transaction').length,
  });
});

it('an export tells on standard error what it wrote, and where from; goes on when its reader is slow, and ends quietly when nobody reads any more, unless it was named', async () => {
  const path = cutFile(Buffer.alloc(0));
  const { exit, out, err } = await runOn(dataDir, '--output', path);
  expect({ exit, out }).toEqual({ exit: 'done', out: '' });
  expect(err).toContain(`heights ${FIRST} to ${LAST}`);
  expect(err).toContain(dataDir);
  expect(readFileSync(path)).toEqual(whole);
  let taken = 0;
  const args = ['export', ...storeFlags(dataDir), '--quiet'];
  const unread = await runInProcess(args, { write: () => Promise.resolve((taken += 1) < 1) });
  expect([unread.exit, taken]).toEqual(['done', 1]);
  const pipe = join(scratchDirectory(), 'pipe');
  execFileSync('sh', ['-c', 'mkfifo "$0"; head -c 1 "$0" &', pipe], { stdio: 'ignore' });
  expect(await run('--output', pipe)).toMatchObject(refusal('storage', /its reader has gone/));
});

it.each([
  [['--from', String(FIRST - 1)], 'not_found', /99 is below the first.*100 to 112/],
  [['--to', String(FIRST - 1)], 'not_found', /99 is below the first.*100 to 112/],
  [['--from', String(LAST + 1)], 'not_found', /113 is not yet indexed: lower --from.*100 to 112/],
  [['--to', String(LAST + 1)], 'not_found', /113 is not yet indexed.*--follow/],
  [['--from', '105', '--to', '104'], 'usage', /--from 105 is above --to 104/],
  [['--resume'], 'usage', /--output FILE/],
  [['--follow'], 'no_daemon', /No daemon answers/],
  [['--finality', 'proven'], 'no_daemon', /No daemon answers/],
  [['--output', '/'], 'storage', /Cannot write \/: it is a directory\. .*--format csv or parquet/],
  [['--output', '/nowhere/at/all'], 'storage', /its directory does not exist/],
  [['--output', '/dev/full'], 'storage', /the disk is full/],
  [['--output', '/dev/null', '--resume'], 'usage', /leave --resume out/],
] as const)('an export %j is refused: %s', async (args, exit, message) => {
  const refused = await run(...args);
  expect({ exit: refused.exit, out: refused.out }).toEqual({ exit, out: '' });
  expect(refused.message).toMatch(message);
});

describe('a file that was cut', () => {
  it('anywhere, and continued, is the same file as one that was written in one go', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length), fc.nat(LAST - FIRST), async (cut, heights) => {
        const path = cutFile(whole.subarray(0, cut));
        // Part of the way first, where the cut leaves room for that.
        const first = await run('--output', path, '--resume', '--to', String(FIRST + heights));
        expect(['done', 'usage']).toContain(first.exit);
        if (first.exit === 'done') expectClosed(readFileSync(path, 'utf8'));
        expect(await run('--output', path, '--resume')).toMatchObject({ exit: 'done', message: '' });
        expect(readFileSync(path).equals(whole)).toBe(true);
      }),
      { numRuns: 10, examples: [0, 1, whole.length, whole.length - 1].map((cut) => [cut, cut % 4]) },
    );
  });

  it('is left alone when it is complete', async () => {
    const path = cutFile(whole);
    const before = statSync(path, { bigint: true }).mtimeNs;
    const { exit, err } = await runOn(dataDir, '--output', path, '--resume');
    expect([exit, err]).toEqual(['done', matching('is complete')]);
    expect(statSync(path, { bigint: true }).mtimeNs).toBe(before);
  });

  it('begins where it begins, and ends no earlier than it does', async () => {
    const part = await run('--from', String(MIDDLE));
    const path = cutFile(Buffer.from(part.out).subarray(0, -300));
    expect(await run('--output', path, '--resume', '--from', String(FIRST))).toMatchObject(
      refusal('usage', /begins at height 106, not at --from 100/),
    );
    expect(await run('--output', path, '--resume', '--to', String(MIDDLE))).toMatchObject(
      refusal('usage', /above --to 106/),
    );
    expect((await run('--output', path, '--resume')).exit).toBe('done');
    expect(readFileSync(path, 'utf8')).toBe(part.out);
  });

  it('goes on whatever the index lacks below its last block', async () => {
    const path = cutFile(Buffer.from((await run('--from', String(MIDDLE))).out).subarray(0, -300));
    const holed = scratchDirectory();
    await fill(holed, chain);
    await withStore(storePath(holed), (store) => store.heal([{ from: MIDDLE - 2, to: MIDDLE + 1 }]));
    expect(await runOn(holed, '--output', path, '--resume')).toMatchObject({ exit: 'done', message: '' });
    expect(readFileSync(path, 'utf8')).toBe((await run('--from', String(MIDDLE))).out);
    const into = ['--output', join(scratchDirectory(), 'directory'), '--partition', '2'];
    await run('--from', String(MIDDLE), '--to', String(MIDDLE + 3), ...into);
    const resumed = await runOn(holed, ...into, '--resume');
    const err = matching(`exported heights ${MIDDLE} to ${LAST}: `);
    expect(resumed).toMatchObject({ exit: 'done', message: '', err });
  });

  it('of another chain is refused, and not changed', async () => {
    const other = scratchDirectory();
    await fill(other, new ChainGenerator({ seed: 6, rootHeight: FIRST, profile: 'mixed' }));
    const path = cutFile(whole.subarray(0, -2000));
    const refused = await runOn(other, '--output', path, '--resume');
    expect(refused).toMatchObject(refusal('foreign', /has another block there/));
    expect(readFileSync(path)).toEqual(whole.subarray(0, -2000));
  });

  const lineEnd = (from: number): number => whole.indexOf('\n', from) + 1;
  it.each<[string, () => Buffer | Promise<Buffer>, RegExp, 'damage'?]>([
    ['holds other things', () => Buffer.from('a thesis\n'), /other lines than an export/],
    ['holds a few other bytes', () => Buffer.from('a note'), /other lines than an export/],
    ['lacks a block', () => Buffer.concat([whole.subarray(0, lineEnd(0)), lastBlock()]), /follows height/],
    ['lacks a transaction', () => withoutOneTransaction(), /lacks 1 lines|outside its block/],
    ['goes on after its end', () => Buffer.concat([whole, whole]), /more follows its closing line/],
    ['has a block that cannot be read', () => Buffer.from('{"kind":"block","height":1}\n'), /cannot be read/],
    ['was changed after it was closed', () => changed(whole), /does not match its closing line/, 'damage'],
    ['was changed since, and lacks new heights', () => older(), /does not match its closing line/, 'damage'],
  ])('is refused when it %s', async (_, bytes, message, exit) => {
    const path = cutFile(await bytes());
    expect(await run('--output', path, '--resume')).toMatchObject(refusal(exit ?? 'usage', message));
    expect(readFileSync(path)).toEqual(await bytes());
  });

  const changed = (lines: Buffer | string): Buffer =>
    Buffer.from(lines.toString().replace(/"gas_limit":"\d/, '"gas_limit":"0'));
  const older = async () => changed((await run('--to', String(MIDDLE))).out);
  const lastBlock = (): Buffer => whole.subarray(whole.lastIndexOf('{"kind":"block"'));

  const withoutOneTransaction = (at = whole.indexOf('{"kind":"transaction"')): Buffer =>
    Buffer.concat([whole.subarray(0, at), whole.subarray(lineEnd(at))]);
});

describe('an export from a daemon', () => {
  /** Many pages of small blocks, and blocks that are larger than a page. */
  const script = Buffer.alloc(400_000, 'x');
  const blocks = chainOf(FIRST, 2_100, (index) =>
    index % 700 === 5 ? [[transactionWith({ script }), transactionWith({ script, gasLimit: 1n })], []] : [],
  );
  const top = FIRST + blocks.length - 1;

  const runAt = (served: ServedChain, ...args: string[]) =>
    runInProcess(['export', '--api-port', String(served.port), '--quiet', ...args]);

  it('is whole, however many pages it takes, each of them bounded, and fetched no faster than it is taken', async () => {
    const served = await ServedChain.start(blocks, { sealed: null });
    const { exit, out } = await runAt(served);
    expect(exit).toBe('done');
    expect(expectClosed(out)).toMatchObject({ from: FIRST, to: top, blocks: blocks.length, transactions: 6 });
    const page = await (await fetch(`${served.url}/export?from=${FIRST}`)).text();
    expect(linesOf(page).filter(({ kind }) => kind === 'block').length).toBeLessThanOrEqual(1_000);
    const heights = linesOf(out).flatMap(({ kind, height }) => (kind === 'block' ? [height] : []));
    expect(heights).toEqual(blocks.map(({ block }) => block.height));
    served.range = { ...served.range, proven: { from: FIRST + 1, to: top - 1 } };
    const proven = await runAt(served, '--finality', 'proven');
    expect(expectClosed(proven.out)).toMatchObject({ from: FIRST + 1, to: top - 1 });
    const beyond = await runAt(served, '--finality', 'proven', '--to', String(top));
    expect(beyond).toMatchObject(refusal('not_found', /not yet proven: .* The proven heights are 101 to/));
    let pages = 0;
    const reader = served.store;
    const read = reader.wholeBlock.bind(reader);
    const asked = new Set<number>();
    let [reading, most] = [0, 0];
    reader.wholeBlock = async (height) => {
      asked.add(height);
      reading += 1;
      most = Math.max(most, reading);
      return read(height).finally(() => (reading -= 1));
    };
    const slow = await runInProcess(['export', '--api-port', String(served.port), '--quiet'], {
      write: async () => {
        pages += 1;
        // Whatever the daemon could make meanwhile, it is asked for the next page at most.
        for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        expect(asked.size).toBeLessThanOrEqual((pages + 1) * 1_001);
        return pages < 2;
      },
    });
    expect([slow.exit, pages]).toEqual(['done', 2]);
    expect(asked.size).toBeGreaterThan(1_000);
    expect(most).toBe(16);
  });

  it('that has no height yet is followed until a signal ends that', async () => {
    const ending = new AbortController();
    let asked = 0;
    const { port } = await RestNode.start((_request, response) => {
      if ((asked += 1) > 1) ending.abort();
      const nothing = { firstIndexed: null, coverage: [], healing: [] };
      response.end(JSON.stringify({ chainId: 'flow-localnet', ...nothing }));
    });
    const args = ['export', '--api-port', String(port), '--follow'];
    expect(await runInProcess(args, { signal: ending.signal })).toMatchObject({ exit: 'done', out: '' });
  });

  it('that cannot answer now is asked again, and says why', async () => {
    const ending = new AbortController();
    const { port, seen } = await RestNode.start(({ url = '' }, response) => {
      const range = { firstIndexed: 0, latestIndexed: 1, coverage: [{ from: 0, to: 0 }] };
      const status = { chainId: 'flow-localnet', ...range, healing: [{ from: 1, to: 1 }] };
      if (url === '/status') response.end(JSON.stringify(status));
      else if (seen.length === 2) response.destroy();
      else response.writeHead(503).end('{"reason":"healing","message":"it heals; retry"}');
      if (seen.length > 3) ending.abort();
    });
    let said = '';
    const change = { signal: ending.signal, err: (text: string) => void (said += text) };
    await expect(runInProcess(['export', '--api-port', String(port)], change)).rejects.toThrow();
    expect(said).toBe(
      'The daemon does not answer; waiting for it.\nThe daemon says "it heals; retry"; waiting for it.\n',
    );
  });

  it.skipIf(!['linux', 'win32'].includes(process.platform))('shares its file with no other one', async () => {
    const served = await ServedChain.start(blocks.slice(0, 10), { sealed: null });
    const path = join(scratchDirectory(), 'shared.ndjson');
    const beside = join(scratchDirectory(), 'link.ndjson');
    const ending = new AbortController();
    const args = ['--output', path, '--resume', '--follow'];
    const running = runInProcess(['export', '--api-port', String(served.port), '--quiet', ...args], {
      signal: ending.signal,
    });
    const held = await eventually(() =>
      existsSync(path) && statSync(path).size > 0 ? readFileSync(path) : undefined,
    );
    symlinkSync(path, beside);
    for (const file of [path, beside]) {
      for (const resume of [['--resume'], []]) {
        const message = `Another export writes to ${file}. Wait until it ends, or choose another file.`;
        expect(await runAt(served, '--output', file, ...resume)).toMatchObject({ exit: 'storage', message });
      }
    }
    // It may have gone on meanwhile, but nobody cut it off.
    expect(readFileSync(path).subarray(0, held.length).equals(held)).toBe(true);
    // Another file is nobody's business.
    const other = join(scratchDirectory(), 'other.ndjson');
    expect((await runAt(served, '--output', other)).exit).toBe('done');
    ending.abort();
    expect((await running).exit).toBe('done');
    expect((await runAt(served, '--output', path, '--resume')).exit).toBe('done');
    expect(readFileSync(path).equals(readFileSync(other))).toBe(true);
  });

  it('that goes away is an error, and that never was is one too', async () => {
    const served = await ServedChain.start(blocks, { sealed: null });
    let pages = 0;
    const write = async () => {
      pages += 1;
      await served.stop();
      return true;
    };
    const cut = await runInProcess(['export', '--api-port', String(served.port), '--quiet'], { write });
    // The page that was fetched while the daemon went may have come whole.
    expect(pages).toBeLessThanOrEqual(2);
    expect(cut).toMatchObject(refusal('no_daemon', /No daemon answers/));
    expect((await runAt(served)).exit).toBe('no_daemon');
  });
});

it('a file of Parquet gives its bytes away as row groups end, within a block too', async () => {
  const { growParquet } = await loadParquet();
  // More rows than a row group holds.
  const [MIB, ROWS] = [1024 * 1024, 40];
  const column = { name: 'body', type: 'binary', of: (row: Buffer) => row, trait: 'scattered' } as const;
  const file = growParquet('bodies', [column], 'none');
  for (let row = 0; row < ROWS; row += 1) file.add(Buffer.alloc(MIB, row) as never);
  const taken = file.take(false)?.length ?? 0;
  expect(taken).toBeGreaterThan(30 * MIB);
  expect(file.take(false), 'nothing is given twice').toBeUndefined();
  const rest = file.take(true)?.length ?? 0;
  expect(rest).toBeGreaterThan(5 * MIB);
  expect(taken + rest).toBeLessThan((ROWS + 1) * MIB);
});
