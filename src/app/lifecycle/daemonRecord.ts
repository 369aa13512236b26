import { accessSync, constants, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode } from '../../storage/index.js';

/** How other commands find a running daemon: a small file in its data directory. */
export interface DaemonRecord {
  readonly pid: number;
  /** Also in the daemon's status: tells a stale record from a live one. */
  readonly instance: string;
  /** The database that holds its index, without credentials. Absent: the data directory does. */
  readonly store?: string | undefined;
  /** Where the read API listens for HTTP, and what commands on this machine need for it. Absent if it is not served. */
  readonly api?: {
    readonly host: string;
    readonly port: number;
    /** SHA-256 of its certificate. Absent: it speaks plain text. */
    readonly certificate?: string;
    /** Absent: none is needed. */
    readonly token?: string;
  };
  /** Absent if gRPC is off. */
  readonly grpc?: { readonly host: string; readonly port: number };
  readonly metrics: { readonly host: string; readonly port: number };
  /** Path of the socket for commands that change something. */
  readonly control?: string;
}

const RECORD_FILE = 'daemon.json';
const STORE_FOLDER = 'index';

/** The LevelDB folder within a data directory. */
export function storePathOf(dataDir: string): string {
  return join(dataDir, STORE_FOLDER);
}

/** Written once the servers listen; readable by the owner only. */
export function writeDaemonRecord(dataDir: string, record: DaemonRecord): void {
  writeFileSync(join(dataDir, RECORD_FILE), JSON.stringify(record) + '\n', { mode: 0o600 });
}

/** `undefined` when it is missing or unreadable: then no daemon is known here. */
export function readDaemonRecord(dataDir: string): DaemonRecord | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(join(dataDir, RECORD_FILE), 'utf8'));
    return isRecord(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** False where this user may not see whether a daemon is recorded. */
export function mayReadRecord(dataDir: string): boolean {
  try {
    accessSync(join(dataDir, RECORD_FILE), constants.R_OK);
    return true;
  } catch (error) {
    return !hasCode(error, 'EACCES');
  }
}

/** True when the process of the record is running. Compare its instance to see whether it is still that daemon. */
export function daemonRuns(dataDir: string): boolean {
  const record = readDaemonRecord(dataDir);
  return record !== undefined && isAlive(record.pid);
}

/** True while a process with this id runs, whichever user owns it. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** Called on a graceful stop. A record left by a crash is harmless: nothing answers at its address. */
export function removeDaemonRecord(dataDir: string): void {
  rmSync(join(dataDir, RECORD_FILE), { force: true });
}

/** Host and port as a URL has them. */
export function hostAndPort({ host, port }: { readonly host: string; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function isRecord(value: unknown): value is DaemonRecord {
  if (typeof value !== 'object' || value === null) return false;
  const { pid, instance, api, metrics } = value as Partial<Record<keyof DaemonRecord, unknown>>;
  return (
    typeof pid === 'number' &&
    typeof instance === 'string' &&
    (api === undefined || isAddress(api)) &&
    isAddress(metrics)
  );
}

function isAddress(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { host, port } = value as { host?: unknown; port?: unknown };
  return typeof host === 'string' && typeof port === 'number';
}
