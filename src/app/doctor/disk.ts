import { access, constants, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { DaemonConfig } from '../../config/index.js';
import { formatCount, formatSize } from '../../observability/index.js';
import { countHeights } from '../../ranges/index.js';
import { hasCode } from '../../storage/index.js';
import { diskRoomOf, whyNoRoom } from '../lifecycle/diskRoom.js';
import type { StoredHeights } from './store.js';
import { ok, problem, those, warning, type Finding } from './verdicts.js';

/** With fewer heights, the mean block size is not reliable. */
const HEIGHTS_TO_MEASURE = 500;
/** A block of 5 collections of 10 transactions (docs/scale-out.md). */
const USUAL_BLOCK_BYTES = 12_273;
/** Public networks make about a block a second. */
const BLOCKS_PER_DAY = 86_400;
const DAYS_TO_LAST = 30;

const REMOTE = 'a file system whose locks and syncs LevelDB cannot rely on';
/** What is wrong with a file system, by the number that `statfs` gives. */
const UNFIT: Readonly<Record<number, string>> = {
  0x0102_1994: 'memory (tmpfs), and a restart of the machine loses it',
  0x794c_7630: 'the writable layer of a container, and is lost with it',
  0x6969: `NFS, ${REMOTE}`,
  0xff53_4d42: `CIFS, ${REMOTE}`,
  0xfe53_4d42: `SMB, ${REMOTE}`,
  0x6573_5546: `FUSE, ${REMOTE}`,
  0x0102_1997: `9P, ${REMOTE}`,
};

/**
 * Whether the disk of the data directory keeps what is written to it, and has room for the heights to come: up to the head, and
 * in plans. `undefined`: no node reported its head.
 */
export async function checkDisk(
  { dataDir, disk: { minFreeBytes }, store }: Pick<DaemonConfig, 'dataDir' | 'disk' | 'store'>,
  stored: StoredHeights,
  heightsToCome: number | undefined,
): Promise<Finding[]> {
  if (store !== undefined) return [ok('The index is in a database, whose disks are not seen from here.')];
  let place = resolve(dataDir);
  // The directory may not exist yet.
  while (!(await stat(place).catch(() => undefined))) place = dirname(place);
  const room = await diskRoomOf(place);
  const { freeBytes, type } = room;
  const unfit = UNFIT[type >>> 0];
  const denied: unknown = await access(place, constants.W_OK).catch((error: unknown) => error);
  const unfitting = hasCode(denied, 'EROFS')
    ? problem(
        'storage',
        `The file system of ${dataDir} is read-only: remount it writable, and see the system log for why.`,
      )
    : unfit !== undefined &&
      warning(`${dataDir} is in ${unfit}; choose a --data-dir on a local disk, or mount a volume there.`);
  if (room.sizeBytes === 0)
    return those(unfitting, ok(`The file system of ${dataDir} does not say how much is free.`));
  const noRoom = whyNoRoom(dataDir, room, { minFreeBytes, isPaused: false });
  if (noRoom !== undefined) return those(unfitting, problem('storage', `Indexing is paused: ${noRoom}.`));
  const hardly = whyNoRoom(dataDir, room, { minFreeBytes, isPaused: true });
  if (hardly !== undefined)
    return those(unfitting, warning(`Indexing pauses soon, or is paused still: ${hardly}.`));
  const free = `${formatSize(freeBytes)} are free on the disk of ${dataDir}, of which indexing leaves ${formatSize(minFreeBytes)}`;
  const usableBytes = freeBytes - minFreeBytes;
  if (heightsToCome === undefined)
    return those(unfitting, ok(`${free}. No node says how many heights are to come.`));
  const heights = countHeights(stored.coverage);
  const isMeasured = heights >= HEIGHTS_TO_MEASURE && stored.bytes !== undefined && stored.bytes > 0;
  const perBlock = isMeasured ? stored.bytes / heights : USUAL_BLOCK_BYTES;
  const measured = isMeasured
    ? `measured over ${formatCount(heights)} heights`
    : 'assuming 5 collections of 10 transactions: too little is indexed to measure, or a daemon has it open';
  const neededBytes = heightsToCome * perBlock;
  const days = Math.floor((usableBytes - neededBytes) / (perBlock * BLOCKS_PER_DAY));
  const toCome = heightsToCome === 1 ? '1 height' : `${formatCount(heightsToCome)} heights`;
  const facts =
    `${free}, and ${toCome} to come need about ${formatSize(neededBytes)} at ` +
    `${formatSize(perBlock)} a block (${measured})`;
  const lasts = `${facts}; then it lasts for about ${formatCount(Math.max(0, days))} days at a block a second`;
  return those(
    unfitting,
    neededBytes > usableBytes
      ? warning(`${facts}; use a larger disk, or begin at a later --start-height.`)
      : days < DAYS_TO_LAST
        ? warning(`${lasts}; plan for a larger one.`)
        : ok(`${lasts}.`),
  );
}
