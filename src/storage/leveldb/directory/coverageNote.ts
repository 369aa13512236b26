import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock, Timer } from '../../../runtime/index.js';
import { syncDirectory } from '../../files/synced.js';
import type { HeightRange } from '../../port/stored.js';
import type { HeightRanges } from '../../records/heightRanges.js';

const NAME = 'COVERAGE';
/** From a change to the write of the note. */
const PAUSE_MS = 250;

/** The heights of the note in a store's directory; none where it is missing or damaged. */
export async function readCoverageNote(path: string): Promise<HeightRanges> {
  const text = await attempt(() => readFile(join(path, NAME), 'utf8'));
  const [ranges = '', checksum] = text?.split('\n') ?? [];
  return checksum === checksumOf(ranges) ? (JSON.parse(ranges) as HeightRange[]) : [];
}

/**
 * A file beside the database that lists heights that are durable in it. LevelDB cannot distinguish a missing or truncated
 * write-ahead log from that of a process that wrote nothing further: the note shows what was lost. It may lag behind, and
 * is absent while heights leave the coverage, so it never lists too many. Nothing depends on it: a note that cannot be
 * written or read counts as absent. `coverage`: the heights that are durable now.
 */
export function coverageNote(
  where: { readonly path: string; readonly coverage: () => HeightRanges },
  { clock }: { readonly clock: Clock },
) {
  const path = join(where.path, NAME);
  /** Set while the note is stale: writes it. */
  let timer: Timer | undefined;
  /** How many actions are making heights leave the coverage, or have failed. */
  let withdrawals = 0;
  /** Operations on the file, one after another. */
  let turn: Promise<void> = Promise.resolve();
  const inTurn = (action: () => Promise<void>) => (turn = turn.then(() => attempt(action)));
  const write = (): Promise<void> => {
    timer?.cancel();
    timer = undefined;
    return inTurn(async () => {
      // Written once the withdrawal is over.
      if (withdrawals > 0) return;
      const ranges = JSON.stringify(where.coverage().map(({ from, to }) => ({ from, to })));
      const next = `${path}.new`;
      await writeFile(next, `${ranges}\n${checksumOf(ranges)}\n`, { mode: 0o600 });
      await rename(next, path);
    });
  };
  /** Writes the note soon. */
  const changed = (): void => {
    timer ??= clock.setTimer(PAUSE_MS, () => void write());
  };
  return {
    changed,
    /** Runs an action that makes heights leave the coverage. If it fails, the note stays absent: some may have left. */
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
    /** Writes the note for the last time. */
    async end(): Promise<void> {
      if (timer !== undefined) await write();
      await turn;
    },
  };
}

function checksumOf(text: string): string {
  return crc32(text).toString(16);
}

/** `undefined` after an error of the operating system: the database itself reports a full disk and the like. */
async function attempt<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}
