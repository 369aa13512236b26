import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Listeners, sleep, unlessAborted, type Clock } from '../../../runtime/index.js';
import { hasCode, StorageError } from '../../../storage/index.js';
import { diskRoomOf, whyNoRoom, type DiskRoom } from '../../lifecycle/diskRoom.js';

/** How often the disk is checked: that is cheap, and a disk can fill by a hundred MiB a second. */
const LOOK_MS = 1_000;

type Room = Pick<DiskRoom, 'freeBytes' | 'freeFiles' | 'sizeBytes'>;

const GONE = 'gone';

export type DiskWatch = ReturnType<typeof watchDisk>;

/**
 * The free space, as last measured, of the disk that holds the store. Pauses writes before the disk is full: LevelDB needs space
 * to compact, and a write that the disk refuses ends the daemon. Start it when the store is open: it fails once that is no
 * longer at its path.
 */
export function watchDisk(
  /** The folder of the store. With less free than that, writing pauses; 0: it never does. */
  { path, minFreeBytes }: { readonly path: string; readonly minFreeBytes: () => number },
  { clock, roomAt = roomThere }: { readonly clock: Clock; readonly roomAt?: typeof roomThere },
) {
  const waiting = new Listeners();
  let disk: Room | undefined;
  /** Why writing is paused; `undefined` while it is not. */
  let noRoom: string | undefined;

  const run = async (signal: AbortSignal): Promise<void> => {
    let place: string | undefined;
    for (;;) {
      // One after the other, as each holds a thread of Node.js's pool while the disk hangs.
      disk = await roomAt(path);
      const how = { minFreeBytes: minFreeBytes(), isPaused: noRoom !== undefined };
      // An unknown free space pauses nothing.
      noRoom = disk && whyNoRoom(path, disk, how);
      if (noRoom === undefined) waiting.tell();
      const now = await placeAt(path);
      place ??= now === GONE ? undefined : now;
      if (place !== undefined && now !== undefined && now !== place) {
        // Open files could still be written, but no process would find them, not even the next start.
        throw new StorageError(
          'missing',
          `The store is no longer at ${path}: the directory was deleted, moved, unmounted or closed to this user, or another one took its place. ` +
            'Put it back, or restore a copy, before you start again: otherwise a new store begins there. ' +
            'Where only its file LOCK was deleted, start again; that file keeps other processes out.',
        );
      }
      await sleep(clock, LOOK_MS, signal);
    }
  };
  return {
    /** Why nothing is written: how much is free, how much is needed, and what to do. `undefined` while writing is not paused. */
    pause: (): string | undefined => noRoom && `indexing is paused: ${noRoom}`,
    /** See `WriteRoom`. */
    whenRoom: (signal: AbortSignal): Promise<void> | undefined => {
      if (noRoom === undefined || signal.aborted) return undefined;
      // An abort also ends the wait.
      return unlessAborted(signal, (proceed) => waiting.add(proceed)).catch(() => undefined);
    },
    /** `undefined` until checked, and if the file system does not say. */
    disk: (): Room | undefined => disk,
    /** Expected errors: the signal's abort reason; `StorageError` (`missing`). What cannot be measured stays unknown. */
    run,
  };
}

/** File systems in memory or user space may report a size of 0, which means unknown, not full. */
async function roomThere(path: string): Promise<Room | undefined> {
  const room = await diskRoomOf(path).catch(() => undefined);
  return room !== undefined && room.sizeBytes > 0 ? room : undefined;
}

/** Identifies the store, if the file system has inode numbers: LevelDB keeps its lock open, so no other file gets that number. */
function placeAt(path: string): Promise<string | undefined> {
  const codes = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES'];
  return stat(join(path, 'LOCK')).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    (error: unknown) => (codes.some((code) => hasCode(error, code)) ? GONE : undefined),
  );
}
