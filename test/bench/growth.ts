/**
 * How the daemon bears growing to five million transactions, and how soon it serves on top of the grown store. Needs some
 * 10 GB of memory and 2 GB of disk for a few minutes. Build first: it runs `dist/main.js`.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ChainGenerator } from '../../src/devnet/index.js';
import { withStore } from '../support/storeDump.js';
import { startDaemon, watchMemory } from './lib/daemon.js';
import { startBenchNode } from './lib/node.js';
import { freshDirectory } from './lib/processes.js';
import { atLeast, atMost, bench, digits } from './lib/report.js';
import { timedStart } from './lib/starts.js';
import { median, ratioOf } from './lib/statistics.js';

const HEIGHTS = 100_000;
const QUICK_SHARE = 20;
const TRANSACTIONS_PER_BLOCK = 50;
const TENTHS = 10;
const STARTS = 5;
const CHAIN = { seed: 1, profile: 'dense' } as const;
/** The node keeps what it has made, so that making it is not what is measured. */
const CACHE_BYTES = 10 * 1024 ** 3;
const MEMORY_POLL_MS = 50;
/** All blocks are of one shape: the mean of a few is that of all. */
const PAYLOAD_SAMPLES = 100;

await bench(
  {
    title: 'Growth',
    about:
      'The real program, by execution data alone, from an empty store to the last of many blocks of 5 × 10 transactions of 655 ' +
      'bytes, all of them made beforehand. Bytes written are those the process handed to write calls (/proc/PID/io: log, tables and ' +
      'manifest, and what little it says to the node); bytes put are the keys and values in the store, before compression; the ' +
      'payload is the collections as a node sends them. The scripts of the simulated chain are two texts and a filler, so ' +
      'they compress better than scripts of a live network may. The start is measured from the start of the ' +
      'process to the first 200 for the collection stored last, by id, with the files in the cache of the system.',
  },
  async ({ quick }) => {
    const heights = quick ? HEIGHTS / QUICK_SHARE : HEIGHTS;
    const node = await startBenchNode({ ...CHAIN, heights, cacheBytes: CACHE_BYTES });
    const dataDir = freshDirectory();
    const daemon = await startDaemon({ node: node.address, mode: 'edi-only', dataDir });
    // With the most memory that no file backs.
    const tenths: { readonly heightsPerSecond: number; readonly peakAnonymousMiB: number }[] = [];
    for (let tenth = 1; tenth <= TENTHS; tenth += 1) {
      const peakAnonymousMiB = watchMemory(daemon.pid, MEMORY_POLL_MS);
      const startedAtMs = performance.now();
      await daemon.reaches((tenth * heights) / TENTHS);
      const seconds = (performance.now() - startedAtMs) / 1_000;
      tenths.push({ heightsPerSecond: heights / TENTHS / seconds, peakAnonymousMiB: peakAnonymousMiB() });
    }
    const writtenBytes = Number(/^wchar:\s+(\d+)/m.exec(readFileSync(`/proc/${daemon.pid}/io`, 'utf8'))?.[1]);
    await daemon.ends('SIGTERM');
    const chain = new ChainGenerator(CHAIN);
    const read = `/v1/collections/${chain.block(heights).collections[0]?.id ?? ''}`;
    const starts: number[] = [];
    while (starts.length < STARTS) starts.push((await timedStart(node.address, dataDir, read)).read);
    node.close();

    const path = join(dataDir, 'index');
    const storedBytes = readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
    const putBytes = await bytesOfEntries(path);
    const payloadBytes = heights * payloadBytesOf(chain, heights);
    const anonymous = tenths.map(({ peakAnonymousMiB }) => peakAnonymousMiB);
    const climb = Math.max(...anonymous.slice(-3)) / Math.max(...anonymous.slice(1, 4));
    const speeds = tenths.map(({ heightsPerSecond }) => heightsPerSecond);
    const decay = ratioOf(speeds.slice(-1), speeds.slice(0, 1));
    return {
      tables: [
        {
          title: 'Tenth by tenth',
          columns: ['tenth', 'heights/s', 'anonymous memory, MiB'],
          rows: tenths.map((tenth, index) => [
            ...[index + 1, tenth.heightsPerSecond, tenth.peakAnonymousMiB].map(digits),
          ]),
        },
        {
          title: `After ${heights * TRANSACTIONS_PER_BLOCK} transactions, MB`,
          columns: ['payload', 'put', 'written', 'stored'],
          rows: [[payloadBytes, putBytes, writtenBytes, storedBytes].map((bytes) => digits(bytes / 1e6))],
        },
        {
          title: 'Start on the grown store, ms to the first answer',
          columns: ['median', 'slowest', 'starts'],
          rows: [[digits(median(starts)), digits(Math.max(...starts)), starts.length]],
        },
      ],
      figures: [
        atLeast(0.7, 'growth: last tenth ÷ first tenth', decay),
        atMost(3.3, 'written ÷ put (write amplification)', writtenBytes / putBytes),
        atMost(0.75, 'stored ÷ payload', storedBytes / payloadBytes),
        atMost(381, 'anonymous memory, highest', Math.max(...anonymous), 'MiB'),
        atMost(1.15, 'anonymous memory, last three tenths ÷ second to fourth', climb),
        atMost(1, 'start on the grown store', median(starts) / 1000, 's'),
      ],
    };
  },
);

function bytesOfEntries(path: string): Promise<number> {
  return withStore(path, async (store) => {
    let bytes = 0;
    for await (const [key, value] of store.entries()) bytes += key.length + value.length;
    return bytes;
  });
}

function payloadBytesOf(chain: ChainGenerator, heights: number): number {
  const step = heights / PAYLOAD_SAMPLES;
  const samples = Array.from({ length: PAYLOAD_SAMPLES }, (_, index) => chain.block(1 + index * step));
  const bytes = samples.flatMap(({ collections }) => collections.map(({ encoded }) => encoded.length));
  return bytes.reduce((sum, each) => sum + each, 0) / PAYLOAD_SAMPLES;
}
