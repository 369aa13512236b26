import { once } from 'node:events';
import { accessSync, constants, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import type { Logger } from '../../observability/index.js';
import { fieldsOf, jsonIn, messageOf, sleep, unlessThrown, type Clock } from '../../runtime/index.js';
import { hasCode } from '../../storage/index.js';
import type { Lifecycle } from './openLifecycle.js';

/** Where a server listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** How the commands of this machine reach a guarded API. */
export interface OwnAccess {
  /** SHA-256 of the certificate, in the form of `X509Certificate`. Absent: the port speaks plain text. */
  readonly certificate?: string | undefined;
  /** Valid for this run. Absent: none is needed. */
  readonly token?: string | undefined;
}

/**
 * How other commands find a running daemon: a small file in its data directory. One left by a crash is harmless: nothing answers
 * at its address.
 */
export interface DaemonRecord {
  readonly pid: number;
  /** Also in the daemon's status: distinguishes a stale record from a live one. */
  readonly instance: string;
  /** The database that holds its index, without credentials. Absent: the data directory does. */
  readonly store?: string | undefined;
  /** Where the read API listens for HTTP, and what commands on this machine need for it. Absent if it is not served. */
  readonly api?: Address & OwnAccess;
  /** Absent if gRPC is off. */
  readonly grpc?: Address | undefined;
  readonly metrics: Address;
  /** Path of the socket for commands that change something. */
  readonly control?: string;
}

export const RECORD_FILE = 'daemon.json';
/** How often to check that a file by which commands find the daemon still exists. */
const LOOK_EVERY_MS = 10_000;

/** The LevelDB folder within a data directory. */
export function storePathOf(dataDir: string): string {
  return join(dataDir, 'index');
}

/**
 * Keeps the record in the data directory while the daemon runs, readable by its owner only. If it cannot be written (a full disk,
 * no descriptor left), the daemon continues, logs that once, and retries, as it does after the file was removed. Call the returned
 * function when something has changed.
 */
export function keepDaemonRecord(
  dataDir: string,
  describe: () => DaemonRecord,
  parts: { readonly clock: Clock; readonly lifecycle: Lifecycle; readonly logger: Logger },
): () => void {
  const { lifecycle, logger } = parts;
  const path = join(dataDir, RECORD_FILE);
  let isNamed = false;
  const write = (): void => {
    try {
      // A concurrent reader gets the whole old record, or the whole new one.
      writeFileSync(`${path}.new`, JSON.stringify(describe()) + '\n', { mode: 0o600 });
      renameSync(`${path}.new`, path);
      isNamed = false;
    } catch (error) {
      // The old record is outdated, and a missing one is retried.
      removeIfPossible(path);
      const advice = 'name its ports (--api-host, --api-port) to commands';
      const fields = { path, why: messageOf(error), advice };
      if (!isNamed)
        logger.warn(fields, 'other commands may not find this daemon: its record cannot be written');
      isNamed = true;
    }
  };
  write();
  lifecycle.supervise(whenRemoved(path, parts, write));
  lifecycle.onClose('daemon record', () => removeIfPossible(path));
  return write;
}

/**
 * Calls `action` whenever a file was removed, until the daemon stops: cleaners of temporary directories take it after some days.
 * Checks one at a time, as a hanging disk must hold nothing up. Expected errors: the life cycle's abort reason.
 */
export async function whenRemoved(
  path: string,
  { clock, lifecycle: { signal } }: { readonly clock: Clock; readonly lifecycle: Lifecycle },
  action: () => void,
): Promise<void> {
  for (;;) {
    await sleep(clock, LOOK_EVERY_MS, signal);
    const found: unknown = await lstat(path).catch((error: unknown) => error);
    signal.throwIfAborted();
    if (hasCode(found, 'ENOENT')) action();
  }
}

/** Removes a file if that is possible: on a disk that has become read-only it stays, which does no harm. */
export function removeIfPossible(path: string): void {
  unlessThrown(() => rmSync(path, { recursive: true, force: true }));
}

/**
 * `undefined` if it is missing or unreadable, or was copied with the directory of another daemon, as its socket shows: then no
 * daemon is known here.
 */
export function readDaemonRecord(dataDir: string): DaemonRecord | undefined {
  const record = recordIn(dataDir);
  const home = dirname(record?.control ?? join(dataDir, RECORD_FILE));
  const isCopy = recordIn(home)?.instance === record?.instance && inodeOf(home) !== inodeOf(dataDir);
  return isCopy ? undefined : record;
}

function recordIn(dataDir: string): DaemonRecord | undefined {
  const parsed = unlessThrown(() => jsonIn(readFileSync(join(dataDir, RECORD_FILE), 'utf8')));
  return isRecord(parsed) ? parsed : undefined;
}

const inodeOf = (path: string): bigint | undefined =>
  unlessThrown(() => statSync(path, { bigint: true }).ino);

/** False if this user may not see whether a daemon is recorded. */
export function mayReadRecord(dataDir: string): boolean {
  try {
    accessSync(join(dataDir, RECORD_FILE), constants.R_OK);
    return true;
  } catch (error) {
    return !hasCode(error, 'EACCES');
  }
}

/** The record of a running daemon, which may hang: the system accepts the connection for it. */
export async function runningDaemon(dataDir: string): Promise<DaemonRecord | undefined> {
  const record = readDaemonRecord(dataDir);
  if (record?.control === undefined) return undefined;
  const socket = connect({ path: record.control });
  const connected = await once(socket, 'connect').catch(() => undefined);
  socket.destroy();
  return connected && record;
}

function isRecord(value: unknown): value is DaemonRecord {
  const { pid, instance, api, metrics } = fieldsOf(value);
  const areAddresses = [metrics, api === undefined ? metrics : api]
    .map(fieldsOf)
    .every(({ host, port }) => typeof host === 'string' && typeof port === 'number');
  return typeof pid === 'number' && typeof instance === 'string' && areAddresses;
}
