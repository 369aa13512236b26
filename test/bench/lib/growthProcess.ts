// The process behind `grow`: writes all blocks of a file into one store, and reports at every tenth. Alone in its process,
// so that memory and bytes written are the writer's.
import { readFileSync } from 'node:fs';
import type { GrowthReport, GrowthTask, Tenth } from '../growth.js';
import { readBlockFile } from './blocks.js';
import { anonymousMiB } from './daemon.js';
import { ownTask } from './processes.js';
import { ProductWriter } from './ProductWriter.js';
import { blockKeyValues, StoreOnlyWriter } from './StoreOnlyWriter.js';

const MEMORY_POLL_MS = 50;

const { file, heights, path, writer } = ownTask() as GrowthTask;
const next = readBlockFile(file);
const tenths: Tenth[] = [];
let tenthStartedAtMs = 0;
let tenthStartedAt = 0;
let durable = 0;
let peakAnonymousMiB = 0;

const writtenBefore = writtenBytes();
process.send?.(await (writer === 'product' ? writeProduct() : writeGroups()));
process.disconnect();

async function writeProduct(): Promise<GrowthReport> {
  const product = await ProductWriter.open(path);
  const report = await measured(() => product.deliver(heights, next, { onDurable: () => count(1) }));
  await product.close();
  return report;
}

async function writeGroups(): Promise<GrowthReport> {
  const store = await StoreOnlyWriter.open(path);
  const entries = () => blockKeyValues(next());
  const report = await measured(() => store.writeAll(heights, entries, { onWritten: count }));
  await store.close();
  return { ...report, putBytes: store.putBytes };
}

async function measured(write: () => Promise<void>): Promise<GrowthReport> {
  const memory = setInterval(pollMemory, MEMORY_POLL_MS);
  const startedAtMs = (tenthStartedAtMs = performance.now());
  await write();
  clearInterval(memory);
  return {
    heightsPerSecond: (heights * 1000) / (performance.now() - startedAtMs),
    ...{ tenths, writtenBytes: writtenBytes() - writtenBefore, putBytes: 0 },
  };
}

function count(newlyDurable: number): void {
  const before = Math.floor((10 * durable) / heights);
  durable += newlyDurable;
  if (Math.floor((10 * durable) / heights) === before) return;
  pollMemory();
  const nowMs = performance.now();
  const heightsPerSecond = ((durable - tenthStartedAt) * 1000) / (nowMs - tenthStartedAtMs);
  tenths.push({ heightsPerSecond, peakAnonymousMiB });
  [tenthStartedAtMs, tenthStartedAt, peakAnonymousMiB] = [nowMs, durable, 0];
}

function pollMemory(): void {
  peakAnonymousMiB = Math.max(peakAnonymousMiB, anonymousMiB('self'));
}

/** All that was handed to write calls: the log, the tables, the manifest; not what the system makes of it. */
function writtenBytes(): number {
  return Number(/^wchar:\s+(\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}
