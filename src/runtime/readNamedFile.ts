import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/** Larger files are refused: those that people name here are far smaller, and some devices never end. */
const MAX_BYTES = 64 * 1024 * 1024;
const STEP_BYTES = 64 * 1024;
/** How long the writer of a pipe may take to begin, and then for each further part. */
const PIPE_LIMIT_MS = 5_000;
const PIPE_LOOK_MS = 10;

/**
 * The content of a file that a person named, or of a descriptor, which is closed. Never waits forever: opening a pipe without
 * a writer would, and reading a device may never end. Expected errors: those of the system, and an Error that says what to do.
 */
export function readNamedFile(
  path: string | number,
  limits: {
    /** Default: 64 MiB. */
    readonly maxBytes?: number;
    /** It is read only once, so it may be a pipe such as a shell's `<(…)`. Blocks the thread until that is filled. */
    readonly mayBePipe?: boolean;
    /** Default: 5 s. */
    readonly pipeLimitMs?: number;
  } = {},
): Buffer {
  const { maxBytes = MAX_BYTES, mayBePipe = false, pipeLimitMs = PIPE_LIMIT_MS } = limits;
  // Windows has no such flag: there it is `undefined`, which counts as 0.
  const file = typeof path === 'number' ? path : openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const about = fstatSync(file);
    if (!about.isFile() && !about.isDirectory() && !mayBePipe)
      throw new Error('it is a pipe or a device; name a file, which can be read again');
    if (about.size > maxBytes) throw tooLarge(maxBytes);
    const parts: Buffer[] = [];
    let bytes = 0;
    let waitedMs = 0;
    for (;;) {
      const part = readPart(file);
      // A pipe opened here reads as empty until a writer has opened it.
      if (part?.length === 0 && (bytes > 0 || !about.isFIFO() || file === path)) return Buffer.concat(parts);
      if (part !== undefined && part.length > 0) {
        parts.push(part);
        bytes += part.length;
        waitedMs = 0;
        if (bytes > maxBytes) throw tooLarge(maxBytes);
        continue;
      }
      if (waitedMs >= pipeLimitMs)
        throw new Error(`it is a pipe or a terminal, and nothing has come for ${pipeLimitMs / 1_000} s`);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PIPE_LOOK_MS);
      waitedMs += PIPE_LOOK_MS;
    }
  } finally {
    closeSync(file);
  }
}

/** Empty at the end; `undefined` while there is nothing yet. */
function readPart(file: number): Buffer | undefined {
  const part = Buffer.allocUnsafe(STEP_BYTES);
  try {
    return part.subarray(0, readSync(file, part));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return undefined;
    throw error;
  }
}

function tooLarge(maxBytes: number): Error {
  return new Error(`it has more than ${maxBytes} bytes, and no such file is that large`);
}
