import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { hasCode } from '../../storage/index.js';
import { isAlive, removeIfPossible } from './daemonRecord.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** A running daemon of this user. The record in its data directory shows whether it is still the same one. */
interface RunEntry {
  readonly pid: number;
  /** Absolute. */
  readonly dataDir: string;
}

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
export function announceRun(dataDir: string, environment: Environment): () => void {
  const registry = registryOf(environment);
  const path = join(registry, `${process.pid}.json`);
  const entry: RunEntry = { pid: process.pid, dataDir: resolve(dataDir) };
  try {
    makeUnlessThere(registry);
    if (!isOurs(registry)) return () => undefined;
    writeFileSync(path, JSON.stringify(entry) + '\n', { mode: 0o600 });
  } catch {
    return () => undefined;
  }
  return () => removeIfPossible(path);
}

/** Only itself: Node.js never returns when it is to make every folder of a path below /proc. */
function makeUnlessThere(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

/** The data directories of this user's running daemons. Stale entries are removed. */
export function announcedRuns(environment: Environment): readonly string[] {
  const registry = registryOf(environment);
  let names: string[];
  try {
    if (!isOurs(registry)) return [];
    names = readdirSync(registry);
  } catch {
    return [];
  }
  const found = new Set<string>();
  for (const name of names) {
    const path = join(registry, name);
    const entry = readEntry(path);
    if (entry !== undefined && isAlive(entry.pid)) found.add(entry.dataDir);
    else removeIfPossible(path);
  }
  return [...found].sort();
}

function readEntry(path: string): RunEntry | undefined {
  try {
    const { pid, dataDir } = JSON.parse(readFileSync(path, 'utf8')) as { pid?: unknown; dataDir?: unknown };
    return typeof pid === 'number' && typeof dataDir === 'string' ? { pid, dataDir } : undefined;
  } catch {
    return undefined;
  }
}
