import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import type { Clock } from '../../runtime/index.js';
import { hasCode } from '../../storage/index.js';
import { isAlive, removeIfPossible, whenRemoved } from './daemonRecord.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** Windows has no user numbers: its temporary directory is the user's own. */
const user = process.getuid?.() ?? 'user';

function registryOf(environment: Environment): string {
  const { XDG_RUNTIME_DIR: runtime = '' } = environment;
  return isAbsolute(runtime)
    ? join(runtime, 'flow-collection-indexer')
    : join(tmpdir(), `flow-collection-indexer-${user}`);
}

/** Another user could have made it, in a directory that everyone may write to. */
function isOurs(registry: string): boolean {
  const about = lstatSync(registry);
  return about.isDirectory() && (process.getuid === undefined || about.uid === process.getuid());
}

/**
 * Lets `status` find this daemon, wherever its data directory is. Returns a function that removes the entry. If no
 * file can be written (a read-only container), it can only be found by its data directory.
 */
export function announceRun(dataDir: string, environment: Environment, clock: Clock): () => void {
  const registry = registryOf(environment);
  const path = join(registry, `${process.pid}.json`);
  const entry = { pid: process.pid, dataDir: resolve(dataDir) };
  let isWritten = false;
  const write = (): void => {
    try {
      makeUnlessThere(registry);
      if (!isOurs(registry)) return;
      writeFileSync(path, JSON.stringify(entry) + '\n', { mode: 0o600 });
      isWritten = true;
    } catch {
      // Its data directory is enough.
    }
  };
  write();
  const looking = whenRemoved(path, clock, write);
  return () => {
    looking.cancel();
    if (isWritten) removeIfPossible(path);
  };
}

/** Only itself: Node.js never returns when it is to make every folder of a path below /proc. */
function makeUnlessThere(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

/**
 * The data directories of this user's running daemons; the record in each shows whether it is still the same one. Stale entries are
 * removed.
 */
export function announcedRuns(environment: Environment): readonly string[] {
  const registry = registryOf(environment);
  try {
    if (!isOurs(registry)) return [];
    const paths = readdirSync(registry).map((name) => join(registry, name));
    return [...new Set(paths.flatMap((path) => dataDirOf(path) ?? []))].sort();
  } catch {
    return [];
  }
}

/** Where the daemon of an entry runs; `undefined`, and the entry is gone: it does not. */
function dataDirOf(path: string): string | undefined {
  try {
    const { pid, dataDir } = JSON.parse(readFileSync(path, 'utf8')) as { pid?: unknown; dataDir?: unknown };
    if (typeof pid === 'number' && typeof dataDir === 'string' && isAlive(pid)) return dataDir;
  } catch {
    // It is no entry.
  }
  removeIfPossible(path);
  return undefined;
}
