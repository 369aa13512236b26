// The process behind `grow`: writes all blocks of a file into one store, and reports at every tenth. Alone in its process,
// so that memory and bytes written are the writer's.
import { readFileSync } from 'node:fs';
import { BlockFileReader } from './blockFile.js';
import { FIRST_HEIGHT } from './blockEntries.js';
import type { GrowthOptions, Tenth } from './growth.js';
import { GROUP, ProductWriter } from './indexer.js';
import { blockKeyValues, progressKeyValue, StoreOnlyWriter } from './storeOnly.js';

const MEMORY_POLL_MS = 50;
const MIB = 1024 * 1024;

const options = JSON.parse(process.argv[2] ?? '{}') as GrowthOptions;
const { heights } = options;
const reader = new BlockFileReader(options.file);
const tenths: Tenth[] = [];
let startedAtMs = 0;
let tenthStartedAtMs = 0;
let durable = 0;
let peakAnonymousMiB = 0;

const writtenBefore = writtenBytes();
const putBytes = await (options.writer === 'product' ? writeProduct() : writeGroups());
reader.close();

async function writeProduct(): Promise<number> {
  const product = await ProductWriter.open(options);
  await measured(
    () => product.deliver(heights, () => reader.next(), { onDurable: () => count(1) }),
    () => product.close(),
  );
  return 0;
}

/** One block after the other, and a group of them durable at once. */
async function writeGroups(): Promise<number> {
  const { path, sync = true, tuning } = options;
  const store = await StoreOnlyWriter.open({ path, sync, ...(tuning === undefined ? {} : { tuning }) });
  const group = options.group?.maxHeights ?? GROUP.maxHeights;
  await measured(
    async () => {
      for (let next = 0; next < heights; next += group) {
        const size = Math.min(group, heights - next);
        for (let index = 0; index < size; index += 1)
          for (const [key, value] of blockKeyValues(reader.next())) store.put(key, value);
        store.put(...progressKeyValue(FIRST_HEIGHT + next + size - 1));
        await store.write();
        count(size);
      }
    },
    () => store.close(),
  );
  return store.putBytes;
}

async function measured(write: () => Promise<void>, close: () => Promise<void>): Promise<void> {
  const memory = setInterval(pollMemory, MEMORY_POLL_MS);
  startedAtMs = tenthStartedAtMs = performance.now();
  await write();
  clearInterval(memory);
  const report = {
    heightsPerSecond: (heights * 1000) / (performance.now() - startedAtMs),
    tenths,
    writtenBytes: writtenBytes() - writtenBefore,
  };
  const closingAtMs = performance.now();
  await close();
  process.send?.({ ...report, closeMs: performance.now() - closingAtMs });
}

function count(newlyDurable: number): void {
  const before = Math.floor((10 * durable) / heights);
  durable += newlyDurable;
  if (Math.floor((10 * durable) / heights) === before) return;
  pollMemory();
  const nowMs = performance.now();
  const done = tenths.reduce((sum, tenth) => sum + tenth.heights, 0);
  tenths.push({
    heights: durable - done,
    heightsPerSecond: ((durable - done) * 1000) / (nowMs - tenthStartedAtMs),
    peakAnonymousMiB,
  });
  tenthStartedAtMs = nowMs;
  peakAnonymousMiB = 0;
}

function pollMemory(): void {
  const anonymousKiB = /^RssAnon:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  peakAnonymousMiB = Math.max(peakAnonymousMiB, (Number(anonymousKiB) * 1024) / MIB);
}

/** All that was handed to write calls: the log, the tables, the manifest; not what the system makes of it. */
function writtenBytes(): number {
  return Number(/^wchar:\s+(\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

process.send?.({ putBytes });
process.disconnect();
