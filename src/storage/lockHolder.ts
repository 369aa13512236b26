import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { createServer } from 'node:net';
import { basename, join } from 'node:path';
import { quoted, unlessThrown, withoutCredentials } from '../runtime/index.js';

/** The most open files to inspect, over all processes: finding the name is not worth more. */
const MAX_LOOKS = 100_000;

/**
 * The process that holds the lock of a database, in words: its number, and its command line if readable. `undefined` if
 * the system does not say (Linux does, for processes of the same user), or no process holds the lock any longer.
 */
export function lockHolder(path: string): string | undefined {
  const lock = unlessThrown(() => realpathSync(join(path, 'LOCK')));
  if (lock === undefined) return undefined;
  let looks = 0;
  for (const pid of namesIn('/proc').filter((name) => /^\d+$/.test(name))) {
    const folder = `/proc/${pid}/fd`;
    for (const descriptor of namesIn(folder)) {
      looks += 1;
      if (looks > MAX_LOOKS) return undefined;
      if (unlessThrown(() => readlinkSync(join(folder, descriptor))) !== lock) continue;
      return Number(pid) === process.pid ? 'this process' : `process ${pid}${commandOf(pid)}`;
    }
  }
  return undefined;
}

/** Program and script without their directories, which would leave no room for what distinguishes processes. */
function commandOf(pid: string): string {
  const words = unlessThrown(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.split('\0') ?? [];
  const command = [...words.slice(0, 2).map((path) => basename(path)), ...words.slice(2)].join(' ').trim();
  return command === '' ? '' : `: ${quoted(withoutCredentials(command))}`;
}

function namesIn(folder: string): readonly string[] {
  return unlessThrown(() => readdirSync(folder)) ?? [];
}

/**
 * Locks a name. Returns the function that unlocks it; `undefined`: another process has the lock. The lock is a system address
 * on which this process listens: it leaves nothing in any directory, and is free the moment the process ends. Systems without
 * such addresses have no lock.
 */
export async function lockNamed(what: string): Promise<(() => void) | undefined> {
  const name = `flow-collection-indexer-${what}`;
  const path = process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : `\0${name}`;
  const server = createServer((socket) => socket.destroy()).unref();
  return new Promise((resolve) => {
    // Any other error says nothing about other processes: there may be no such addresses here.
    server.once('error', ({ code }: NodeJS.ErrnoException) =>
      resolve(code === 'EADDRINUSE' ? undefined : () => undefined),
    );
    server.listen(path, () => resolve(() => server.close()));
  });
}
