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
  let lock: string;
  let processes: string[];
  try {
    lock = realpathSync(join(path, 'LOCK'));
    processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return undefined;
  }
  let looks = 0;
  for (const pid of processes) {
    for (const file of openFiles(pid)) {
      looks += 1;
      if (looks > MAX_LOOKS) return undefined;
      if (file === lock)
        return Number(pid) === process.pid ? 'this process' : `process ${pid}${commandOf(pid)}`;
    }
  }
  return undefined;
}

function* openFiles(pid: string): Generator<string> {
  const folder = `/proc/${pid}/fd`;
  let descriptors: string[];
  try {
    descriptors = readdirSync(folder);
  } catch {
    // Another user's process, or gone.
    return;
  }
  for (const descriptor of descriptors) {
    try {
      yield readlinkSync(join(folder, descriptor));
    } catch {
      // Closed meanwhile.
    }
  }
}

/** Program and script without their folders, which would leave no room for what tells processes apart. */
function commandOf(pid: string): string {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    const command = [...words.slice(0, 2).map((path) => basename(path)), ...words.slice(2)].join(' ').trim();
    return command === '' ? '' : `: ${quoted(withoutCredentials(command))}`;
  } catch {
    return '';
  }
}
