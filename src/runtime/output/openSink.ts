import { closeSync, constants, fstatSync, openSync, readFileSync, writev, writevSync } from 'node:fs';
import { isatty } from 'node:tty';

/**
 * Writes some of the bytes and calls back, at once or later, with how many. Not called again before that.
 * `EAGAIN`: there is no room now.
 */
export interface Sink {
  write(
    buffers: readonly Uint8Array[],
    done: (error: NodeJS.ErrnoException | null, written: number) => void,
  ): void;
  /** How much is worth writing at once. */
  readonly chunkBytes: number;
}

/** A pipe accepts this much atomically, so that the lines of several writers do not mix. */
const PIPE_CHUNK_BYTES = 4_096;
/** Larger, because the writes to a file are queued one behind another. */
const FILE_CHUNK_BYTES = 65_536;

/**
 * A way to write to standard output (1) or standard error (2) that never blocks the thread, whatever is behind it. Call
 * it once for each, before anything else is written or opened.
 */
export function openSink(descriptor: 1 | 2): Sink {
  if (!neverBlocks(descriptor)) {
    // One write at a time, so that a write that never ends occupies only one thread of the pool.
    const write: Sink['write'] = (buffers, done) => writev(descriptor, buffers, done);
    return { write, chunkBytes: FILE_CHUNK_BYTES };
  }
  const write: Sink['write'] = (buffers, done) => {
    let written: number;
    try {
      written = writevSync(descriptor, buffers);
    } catch (error) {
      done(error as NodeJS.ErrnoException, 0);
      return;
    }
    done(null, written);
  };
  return { write, chunkBytes: PIPE_CHUNK_BYTES };
}

/** Makes writes fail with EAGAIN instead of blocking, where the system allows it. */
function neverBlocks(descriptor: 1 | 2): boolean {
  const about = fstatSync(descriptor);
  if (about.isFile()) return false;
  // Node.js puts a blocking description in the place of a terminal's when it makes a stream of it: first, so that it does not
  // replace ours.
  if (isatty(descriptor) && !makeStream(descriptor)) return false;
  if (reopen(descriptor)) return true;
  // A socket cannot be opened again. Node.js makes pipes and sockets non-blocking when it makes streams of them.
  if (!makeStream(descriptor)) return false;
  try {
    const [, flags = '0'] =
      /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & constants.O_NONBLOCK) !== 0;
  } catch {
    // Not on Linux.
    return about.isFIFO() || about.isSocket();
  }
}

function makeStream(descriptor: 1 | 2): boolean {
  return (descriptor === 1 ? process.stdout : process.stderr).writable;
}

/**
 * Replaces the given descriptor by a non-blocking open file description of our own for the same pipe or terminal. Other
 * processes may share the given one: they would fail if it stopped blocking, and one that ends would make it block again.
 * What Node.js itself writes there no longer blocks either.
 */
function reopen(descriptor: number): boolean {
  const flags = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
  let own: number;
  try {
    own = openSync(`/proc/self/fd/${descriptor}`, flags);
  } catch {
    // A socket, a terminal of another user, or not Linux.
    return false;
  }
  closeSync(descriptor);
  let placed: number;
  try {
    // The lowest number that is free: the one just closed.
    placed = openSync(`/proc/self/fd/${own}`, flags);
  } catch {
    placed = openSync('/dev/null', flags);
  }
  closeSync(own);
  if (placed !== descriptor) throw new Error(`descriptor ${descriptor} was taken by another file`);
  return true;
}
