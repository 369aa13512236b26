import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock, Timer } from '../../../runtime/index.js';
import { syncDirectory } from '../../files/synced.js';
import type { HeightRange } from '../../port/stored.js';
import type { HeightRanges } from '../../records/heightRanges.js';

const NAME = 'COVERAGE';
/** From a change to the writing. */
const PAUSE_MS = 250;

/** The heights of the note in a store's directory; none where it is missing or damaged. */
export async function readCoverageNote(path: string): Promise<HeightRanges> {
  const text = await attempt(() => readFile(join(path, NAME), 'utf8'));
  const [ranges = '', checksum] = text?.split('\n') ?? [];
  return checksum === checksumOf(ranges) ? (JSON.parse(ranges) as HeightRange[]) : [];
}

/**
 * A file beside the database that names heights which are durable in it. LevelDB takes a write-ahead log that is missing
 * or was cut for that of a process that wrote no more: by this note the loss has a name. It may lag behind, and is
 * missing while heights leave, so it never names too many. Nothing depends on it: a note that cannot be written or read
 * is none. `coverage`: what is durable at the moment.
 */
export function coverageNote(
  where: { readonly path: string; readonly coverage: () => HeightRanges },
  { clock }: { readonly clock: Clock },
) {
  const path = join(where.path, NAME);
  /** Set while the note is stale: it is written then. */
  let timer: Timer | undefined;
  /** How many actions make heights leave at this moment, or have failed to. */
  let withdrawals = 0;
  /** What is done to the file, one after the other. */
  let turn: Promise<void> = Promise.resolve();
  const inTurn = (action: () => Promise<void>) => (turn = turn.then(() => attempt(action)));
  const write = (): Promise<void> => {
    timer?.cancel();
    timer = undefined;
    return inTurn(async () => {
      // It is written when that is over.
      if (withdrawals > 0) return;
      const ranges = JSON.stringify(where.coverage().map(({ from, to }) => ({ from, to })));
      const next = `${path}.new`;
      await writeFile(next, `${ranges}\n${checksumOf(ranges)}\n`, { mode: 0o600 });
      await rename(next, path);
    });
  };
  /** Writes it soon. */
  const changed = (): void => {
    timer ??= clock.setTimer(PAUSE_MS, () => void write());
  };
  return {
    changed,
    /** Does something that makes heights leave the coverage. Where it fails, the note stays away for good: some may have left. */
    async withdrawn<T>(action: () => Promise<T>): Promise<T> {
      withdrawals += 1;
      await inTurn(async () => {
        await rm(path, { force: true });
        // A power loss must not bring it back.
        await syncDirectory(dirname(path));
      });
      const result = await action();
      withdrawals -= 1;
      changed();
      return result;
    },
    /** Writes it for the last time. */
    async end(): Promise<void> {
      if (timer !== undefined) await write();
      await turn;
    },
  };
}

function checksumOf(text: string): string {
  return crc32(text).toString(16);
}

/** `undefined` after an error of the operating system: of a full disk and the like, the database tells. */
async function attempt<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}
