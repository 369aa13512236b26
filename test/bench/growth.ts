/**
 * How the store bears growing to five million transactions, and how soon a daemon on top of the grown store serves. Needs
 * some 10 GB of disk for a few minutes. Build first: it runs `dist/main.js`.
 *
 *     --heights N    instead of 100,000 blocks (a twentieth of that with --quick)
 */
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { BlockMaker, FIRST_HEIGHT } from './lib/blockEntries.js';
import { writeBlockFile } from './lib/blockFile.js';
import { grow } from './lib/growth.js';
import type { GrowthReport } from './lib/growth.js';
import { eachLine, ROOT, scratch, startProcess } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import type { Table } from './lib/report.js';
import { median } from './lib/statistics.js';
import { TextMaker } from './lib/textBlocks.js';
import { scriptOptions } from '../support/scriptOptions.js';

const HEIGHTS = 100_000;
const QUICK_SHARE = 20;
const TRANSACTIONS_PER_BLOCK = 50;
/** Enough that LevelDB has written the most of it to tables. */
const TEXT_SHARE = 20;
const STARTS = 5;
const POLL_MS = 2;
const SEED = 1;
const MAIN = resolve(ROOT, 'dist/main.js');

const { values: args } = scriptOptions({ options: { heights: { type: 'string' } }, strict: false });

await bench(
  {
    title: 'Growth',
    about:
      'Blocks of 5 × 10 transactions of 655 bytes, all of them made beforehand and read from one file by each writer, in a ' +
      'process of its own: the product (indexer and store, every batch synced), then the store-only writer, which puts the ' +
      'same entries into LevelDB with the same options, synced likewise. Bytes written are those the process handed to ' +
      'write calls (/proc/self/io: log, tables and manifest); bytes put are the keys and values before compression; the ' +
      'payload is the collections as a node sends them. The scripts of the simulated chain are two texts and a filler, so ' +
      'they compress better than scripts of a live network may; "text" below is the same with every script a text of its ' +
      'own, of words of Cadence drawn at random, which compresses worse. The start is measured from the start of the ' +
      'process to the first 200 for the collection stored last, by id, with the files in the cache of the system.',
  },
  async ({ quick }) => {
    const heights = Number(args.heights ?? (quick ? HEIGHTS / QUICK_SHARE : HEIGHTS));
    const file = join(scratch, 'blocks');
    const dataDir = join(scratch, 'data');
    mkdirSync(dataDir);
    const path = join(dataDir, 'index');
    const chain = new BlockMaker({ seed: SEED, profile: 'dense' });
    const payload = writeBlockFile(file, heights, (height) => chain.at(height));
    const product = await grow({ writer: 'product', file, heights, path });
    const storeOnly = await growAndForget(file, heights, true);
    rmSync(file);
    const textHeights = Math.ceil(heights / TEXT_SHARE);
    const text = new TextMaker(SEED);
    const textFile = join(scratch, 'text');
    const textPayload = writeBlockFile(textFile, textHeights, (height) => text.at(height));
    const textual = await growAndForget(textFile, textHeights, true);
    const starts = await startsToServing(dataDir, chain, heights);
    const anonymous = product.tenths.map(({ peakAnonymousMiB }) => peakAnonymousMiB);
    const amplification = product.writtenBytes / storeOnly.putBytes;
    return {
      tables: [
        tenthsTable(product, storeOnly),
        {
          title: `After ${heights * TRANSACTIONS_PER_BLOCK} transactions`,
          columns: ['', 'product', 'store only', `store only, text (${textHeights} blocks)`],
          rows: [
            ['heights/s', ...[product, storeOnly, textual].map((run) => digits(run.heightsPerSecond))],
            ['last tenth ÷ first tenth', ...[product, storeOnly, textual].map((run) => digits(decay(run)))],
            ['payload, MB', digits(payload / 1e6), digits(payload / 1e6), digits(textPayload / 1e6)],
            ['put, MB', ...[storeOnly, storeOnly, textual].map(({ putBytes }) => digits(putBytes / 1e6))],
            ['written ÷ put', amplification, ...[storeOnly, textual].map(amplificationOf)].map(cell),
            [
              'stored ÷ payload',
              product.storedBytes / payload,
              storeOnly.storedBytes / payload,
              textual.storedBytes / textPayload,
            ].map(cell),
          ],
        },
        {
          title: 'Start on the grown store, ms to the first answer',
          columns: ['median', 'slowest', 'starts'],
          rows: [[digits(median(starts)), digits(Math.max(...starts)), starts.length]],
        },
      ],
      figures: [
        { what: 'growth: last tenth ÷ first tenth', value: decay(product), atLeast: 0.7 },
        {
          what: 'growth ÷ growth of the store-only writer',
          value: decay(product) / decay(storeOnly),
          atLeast: 1,
        },
        {
          what: 'growth: product ÷ store only',
          value: product.heightsPerSecond / storeOnly.heightsPerSecond,
        },
        { what: 'written ÷ put (write amplification)', value: amplification, atMost: 3.3 },
        { what: 'stored ÷ payload', value: product.storedBytes / payload, atMost: 0.75 },
        { what: 'stored ÷ payload, text', value: textual.storedBytes / textPayload, atMost: 0.75 },
        { what: 'anonymous memory, highest', value: Math.max(...anonymous), unit: 'MiB', atMost: 381 },
        {
          what: 'anonymous memory, last three tenths ÷ second to fourth',
          value: Math.max(...anonymous.slice(-3)) / Math.max(...anonymous.slice(1, 4)),
          atMost: 1.15,
        },
        { what: 'start on the grown store', value: median(starts) / 1000, unit: 's', atMost: 1 },
      ],
    };
  },
);

async function growAndForget(file: string, heights: number, sync: boolean): Promise<GrowthReport> {
  const path = join(scratch, 'store-only');
  const report = await grow({ writer: 'store only', file, heights, path, sync });
  rmSync(path, { recursive: true });
  return report;
}

function decay({ tenths }: GrowthReport): number {
  return (tenths.at(-1)?.heightsPerSecond ?? Number.NaN) / (tenths[0]?.heightsPerSecond ?? Number.NaN);
}

function amplificationOf({ writtenBytes, putBytes }: GrowthReport): number {
  return writtenBytes / putBytes;
}

function cell(value: string | number): string {
  return typeof value === 'string' ? value : digits(value);
}

function tenthsTable(product: GrowthReport, storeOnly: GrowthReport): Table {
  return {
    title: 'Heights per second, tenth by tenth',
    columns: ['tenth', 'product', 'store only', 'anonymous memory of the product, MiB', 'of store only'],
    rows: product.tenths.map(({ heightsPerSecond, peakAnonymousMiB }, index) => [
      index + 1,
      digits(heightsPerSecond),
      digits(storeOnly.tenths[index]?.heightsPerSecond ?? Number.NaN),
      digits(peakAnonymousMiB),
      digits(storeOnly.tenths[index]?.peakAnonymousMiB ?? Number.NaN),
    ]),
  };
}

/** Milliseconds from spawning the real program to its first answer out of the store, several times over. */
async function startsToServing(dataDir: string, chain: BlockMaker, heights: number): Promise<number[]> {
  const { collections } = chain.at(FIRST_HEIGHT + heights - 1);
  const id = collections[0]?.id ?? '';
  const node = await startNode(heights);
  const times: number[] = [];
  for (let start = 0; start < STARTS; start += 1) {
    const port = await freePort();
    const startedAtMs = performance.now();
    const daemon = startProcess([
      ...[MAIN, 'start', '--network', 'devnet', '--access-node', node.url, '--data-dir', dataDir],
      ...[
        '--api-port',
        String(port),
        '--api-grpc-port',
        '0',
        '--metrics-port',
        '0',
        '--log-format',
        'json',
        '--log-level',
        'error',
      ],
    ]);
    daemon.stdout?.resume();
    const url = `http://127.0.0.1:${port}/v1/collections/${id}`;
    while (!(await answers(url))) {
      if (daemon.exitCode !== null) throw new Error(`the daemon ended with ${daemon.exitCode}`);
      await new Promise((resume) => setTimeout(resume, POLL_MS));
    }
    times.push(performance.now() - startedAtMs);
    daemon.kill('SIGTERM');
    await once(daemon, 'exit');
  }
  node.close();
  return times;
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url);
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

/** A simulated node of the same chain, whose head is the last height stored. */
async function startNode(heights: number): Promise<{ url: string; close(): void }> {
  const child = startProcess([
    ...[MAIN, 'devnet', '--port', '0', '--seed', String(SEED), '--profile', 'dense'],
    ...['--history', String(FIRST_HEIGHT + heights - 1), '--block-interval-ms', '1000'],
  ]);
  const url = await new Promise<string>((onUrl, onFailure) => {
    child.once('exit', (code) => onFailure(new Error(`the simulated node ended with ${String(code)}`)));
    void eachLine(child, (line) => {
      const address = /grpc:\/\/[^\s:]+:\d+/.exec(line);
      if (address !== null) onUrl(address[0]);
    });
  });
  return { url, close: () => child.kill('SIGKILL') };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
