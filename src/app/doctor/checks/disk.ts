import { open, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { DaemonConfig } from '../../../config/index.js';
import { formatCount, formatSize } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';
import { storageErrorFrom } from '../../../storage/index.js';
import type { StoredHeights } from '../facts/storeFacts.js';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

/** Synced writes to measure, one page each. */
const SYNCS = 8;
const PAGE_BYTES = 4096;
/** Every batch waits for a sync. */
const SLOW_SYNC_MS = 50;
/** With fewer heights, the mean block size is not reliable. */
const HEIGHTS_TO_MEASURE = 500;
/** A block of 5 collections of 10 transactions (docs/scale-out.md). */
const USUAL_BLOCK_BYTES = 12_273;
/** Public networks make about a block a second. */
const BLOCKS_PER_DAY = 86_400;
const DAYS_TO_LAST = 30;

/** File systems by the number that `statfs` gives. */
const FILE_SYSTEMS: Readonly<Record<number, string>> = {
  0xef53: 'ext4',
  0x5846_5342: 'xfs',
  0x9123_683e: 'btrfs',
  0x2fc1_2fc1: 'zfs',
  0xf2f5_2010: 'f2fs',
  0x0102_1994: 'tmpfs',
  0x794c_7630: 'overlayfs',
  0x6969: 'nfs',
  0xff53_4d42: 'cifs',
  0xfe53_4d42: 'smb',
  0x6573_5546: 'fuse',
  0x0102_1997: '9p',
};
const IN_MEMORY: readonly string[] = ['tmpfs'];
const REMOTE: readonly string[] = ['nfs', 'cifs', 'smb', 'fuse', '9p'];

export interface DiskPlans {
  readonly stored: StoredHeights;
  /** Heights still to be indexed: up to the head, and in plans. `undefined`: no node gave its head. */
  readonly heightsToCome: number | undefined;
}

/** Space, speed and kind of the disk of the data directory. Writes a small file beside the store, and removes it. */
export async function checkDisk(
  { dataDir, store }: Pick<DaemonConfig, 'dataDir' | 'store'>,
  plans: DiskPlans,
  clock: Clock,
): Promise<Finding[]> {
  const place = await nearest(resolve(dataDir));
  const { bavail, bsize, type } = await statfs(place);
  const freeBytes = bavail * bsize;
  const kind = FILE_SYSTEMS[type >>> 0] ?? `file system 0x${(type >>> 0).toString(16)}`;
  let syncMs: number;
  try {
    syncMs = await measureSync(place, clock);
  } catch (error) {
    const fault = storageErrorFrom(error, 'write to the data directory', place);
    if (!(fault instanceof Error)) throw error;
    return [problem('storage', fault.message)];
  }
  const facts = `${dataDir} is on ${kind} with ${formatSize(freeBytes)} free; a synced write takes ${syncMs.toFixed(1)} ms.`;
  // A database has its own disks.
  if (store !== undefined) return [ok(facts)];
  const found = [...checkKind(kind, dataDir), ...checkSpace(freeBytes, dataDir, plans)];
  if (syncMs > SLOW_SYNC_MS) {
    found.push(
      warning(
        `A synced write to ${dataDir} takes ${syncMs.toFixed(0)} ms, and every batch waits for one; use a faster disk (an SSD takes ` +
          'a few milliseconds).',
      ),
    );
  }
  return [...found, ok(facts)];
}

/** The directory, or its nearest existing ancestor. */
async function nearest(path: string): Promise<string> {
  try {
    if ((await stat(path)).isDirectory()) return path;
  } catch {
    // Try its parent.
  }
  return dirname(path) === path ? path : nearest(dirname(path));
}

/** The median of several writes. Expected errors: those of the file system. */
async function measureSync(folder: string, clock: Clock): Promise<number> {
  const path = join(folder, `.flow-collection-indexer-doctor-${process.pid}`);
  const file = await open(path, 'wx', 0o600);
  try {
    const times: number[] = [];
    const page = Buffer.alloc(PAGE_BYTES, 1);
    for (let round = 0; round < SYNCS; round += 1) {
      const beganAtMs = clock.monotonic();
      await file.write(page);
      await file.datasync();
      times.push(clock.monotonic() - beganAtMs);
    }
    times.sort((left, right) => left - right);
    return times[Math.floor(times.length / 2)] ?? 0;
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
}

function checkKind(kind: string, dataDir: string): Finding[] {
  if (IN_MEMORY.includes(kind))
    return [
      warning(
        `${dataDir} is in memory (${kind}): a restart of the machine loses the index; choose a --data-dir on a disk.`,
      ),
    ];
  if (REMOTE.includes(kind)) {
    return [
      warning(
        `${dataDir} is on ${kind}, whose locks and syncs LevelDB cannot rely on; choose a --data-dir on a local disk.`,
      ),
    ];
  }
  if (kind === 'overlayfs') {
    return [
      warning(
        `${dataDir} is in the writable layer of a container and is lost with it; mount a volume there.`,
      ),
    ];
  }
  return [];
}

/** Whether the disk has room for the heights to come, at the block size so far. */
function checkSpace(freeBytes: number, dataDir: string, { heightsToCome, stored }: DiskPlans): Finding[] {
  const heights = stored.coverage.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  const isMeasured = heights >= HEIGHTS_TO_MEASURE && stored.bytes !== undefined && stored.bytes > 0;
  const perBlock = isMeasured ? stored.bytes / heights : USUAL_BLOCK_BYTES;
  const measured = isMeasured
    ? `measured over ${formatCount(heights)} heights`
    : 'assuming 5 collections of 10 transactions, because too little is indexed to measure';
  const basis = `at ${formatSize(perBlock)} a block (${measured})`;
  const neededBytes = (heightsToCome ?? 0) * perBlock;
  if (neededBytes > freeBytes) {
    return [
      warning(
        `The ${formatCount(heightsToCome ?? 0)} heights to come need about ${formatSize(neededBytes)} ${basis}, and ${formatSize(freeBytes)} ` +
          `are free on the disk of ${dataDir}; use a larger disk, or begin at a later --start-height.`,
      ),
    ];
  }
  const days = Math.floor((freeBytes - neededBytes) / (perBlock * BLOCKS_PER_DAY));
  if (days < DAYS_TO_LAST) {
    return [
      warning(
        `After catching up, the disk of ${dataDir} lasts for about ${days} days at a block a second, ${basis}; plan for a larger one.`,
      ),
    ];
  }
  const toCome =
    heightsToCome === undefined
      ? ''
      : `${heightsToCome === 1 ? 'One height is' : `${formatCount(heightsToCome)} heights are`} to come, about ${formatSize(neededBytes)}; `;
  return [
    ok(
      `${toCome}the free space then lasts for about ${formatCount(days)} days at a block a second, ${basis}.`,
    ),
  ];
}
