import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Nobody can be asked any more once the process has ended: so much of its time may be missing. */
const LOOK_EVERY_MS = 20;
/** Of /proc; the same on every Linux. */
const MS_PER_TICK = 10;

/** Reads for as long as a process lives what its main thread has used of the processor; the function tells the last of it, in milliseconds. */
export function watchMainThread(child: ChildProcess): () => number {
  let lastMs = Number.NaN;
  const look = (): void => {
    lastMs = mainThreadMs(child.pid) ?? lastMs;
  };
  look();
  const looking = setInterval(look, LOOK_EVERY_MS);
  child.once('exit', () => clearInterval(looking));
  return () => {
    look();
    return lastMs;
  };
}

/** What the main thread of a process has used of the processor; `undefined` for a process that has ended, and where there is no /proc. */
export function mainThreadMs(pid = 0): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
  } catch {
    return undefined;
  }
}
