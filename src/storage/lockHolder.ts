import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { quoted, withoutCredentials } from '../runtime/index.js';

/** The most open files to inspect, over all processes: finding the name is not worth more. */
const MAX_LOOKS = 100_000;

/**
 * The process that holds the lock of a database, in words: its number, and its command line if readable. `undefined` if
 * the system does not say (Linux does, for processes of the same user), or nobody holds it any more.
 */
export function lockHolder(path: string): string | undefined {
  const lock = unlessRefused(() => realpathSync(join(path, 'LOCK')));
  if (lock === undefined) return undefined;
  let looks = 0;
  for (const pid of namesIn('/proc').filter((name) => /^\d+$/.test(name))) {
    const folder = `/proc/${pid}/fd`;
    for (const descriptor of namesIn(folder)) {
      looks += 1;
      if (looks > MAX_LOOKS) return undefined;
      if (unlessRefused(() => readlinkSync(join(folder, descriptor))) !== lock) continue;
      return Number(pid) === process.pid ? 'this process' : `process ${pid}${commandOf(pid)}`;
    }
  }
  return undefined;
}

/** Program and script without their folders, which would leave no room for what tells processes apart. */
function commandOf(pid: string): string {
  const words = unlessRefused(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.split('\0') ?? [];
  const command = [...words.slice(0, 2).map((path) => basename(path)), ...words.slice(2)].join(' ').trim();
  return command === '' ? '' : `: ${quoted(withoutCredentials(command))}`;
}

function namesIn(folder: string): readonly string[] {
  return unlessRefused(() => readdirSync(folder)) ?? [];
}

/** `undefined` of another user's process, and of what is gone meanwhile. */
function unlessRefused<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
