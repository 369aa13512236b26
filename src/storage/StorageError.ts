import { OperatorError } from '../runtime/index.js';
import { lockHolder } from './lockHolder.js';

/** Every kind of storage failure that calls for a different action by the operator. */
export type StorageErrorKind =
  /** Another process uses the directory. */
  | 'locked'
  /** No room on the device, or a quota is exhausted. */
  | 'disk_full'
  | 'permission'
  /** The file system is mounted read-only. */
  | 'read_only'
  /** The stored bytes differ from what was written. */
  | 'corrupt'
  /** The process may not open more files. */
  | 'too_many_files'
  /** There is no store at the path, and the caller did not ask to create one. */
  | 'missing'
  /** The directory holds something other than a store. */
  | 'not_a_store'
  /** The database does not answer at the moment. */
  | 'unavailable'
  /** Any other failure of the device or the file system. */
  | 'io';

/**
 * The store cannot continue. Nothing is retried, unless it is a `DatabaseFault`: the process ends with the exit code for
 * storage, and the message names the fault and the fix (full, locked and damaged disks need different ones).
 */
export class StorageError extends OperatorError {
  override readonly name = 'StorageError';
  readonly kind: StorageErrorKind;
  /** The height whose record is damaged, where known. */
  readonly height: number | undefined;
  /** For `corrupt`: which record and what is wrong with it, without the advice in `message`. */
  readonly damage: string | undefined;

  constructor(
    kind: StorageErrorKind,
    message: string,
    options?: ErrorOptions & { readonly height?: number | undefined; readonly damage?: string },
  ) {
    super('storage', message, options);
    this.kind = kind;
    this.height = options?.height;
    this.damage = options?.damage;
  }
}

/**
 * The database, a pooler before it or the network between refuses, or does not answer. It is waited for, whatever the code:
 * an operator can fix it while the program runs.
 */
export class DatabaseFault extends StorageError {
  /** The SQLSTATE; `undefined` where no server has given one. */
  readonly code: string | undefined;
  readonly #owner: object | undefined;

  constructor(
    kind: StorageErrorKind,
    message: string,
    options: ErrorOptions & { readonly code?: string | undefined; readonly owner?: object | undefined },
  ) {
    super(kind, message, options);
    this.code = options.code;
    this.#owner = options.owner;
  }

  /** The database object at fault, where it is not the caller's: the queue's, within a transaction of the store. Not for logs. */
  get owner(): object | undefined {
    return this.#owner;
  }
}

/** Another process fills in the range now, or its plan was cancelled. This run has written nothing since. */
export class RangeLostError extends StorageError {
  constructor(place: string) {
    super('locked', `Another process fills in this range of the store at ${place} now.`);
  }
}

const FIX =
  'Check the disk. Run "verify" to see which heights are lost, then "repair --yes" to keep all others ' +
  '(the daemon fetches the lost ones again), or restore the data directory from a copy.';

/** A record whose bytes differ from what was written. `what` names the record: "block record", "body", … */
export function corruptRecord(
  what: string,
  height: number | undefined,
  detail: string,
  options?: ErrorOptions,
): StorageError {
  const damage = `${what}${height === undefined ? '' : ` of height ${height}`}: ${detail}`;
  return new StorageError('corrupt', `The store is damaged: ${damage}. Nothing damaged is served. ${FIX}`, {
    ...options,
    height,
    damage,
  });
}

/** `pattern` is matched against error codes and LevelDB's texts, which contain the C library's messages; `advice`: what to do. */
type Fault = readonly [
  kind: StorageErrorKind,
  pattern: RegExp,
  advice: string | ((pathOfStore: string) => string),
];

/** In order: the first match names the fault. */
const faults: readonly Fault[] = [
  [
    'permission',
    /\bEACCES\b.*, (?:scandir|l?stat)\b/,
    'This user may not read there. Run this as the user that runs the daemon (sudo -u), or give the directory to this one (chown -R).',
  ],
  [
    'permission',
    /\b(?:EACCES|EPERM)\b|Permission denied|Operation not permitted|Access is denied/i,
    'This user may not write there. Give the directory to the user that runs the daemon (chown), or choose another directory.',
  ],
  [
    'disk_full',
    /\b(?:ENOSPC|EDQUOT)\b|No space left on device|Disk quota exceeded|not enough space/i,
    'The disk is full. Free some space there, or choose a directory on a larger disk, then start again; what was indexed is safe. ' +
      'Where "df -h" shows space, no more files fit ("df -i").',
  ],
  [
    'read_only',
    /\bEROFS\b|Read-only file system/i,
    'The file system is mounted read-only. Remount it writable (a disk fault often turns it read-only), or choose another directory.',
  ],
  [
    'too_many_files',
    /\b(?:EMFILE|ENFILE)\b|Too many open files/i,
    'The limit of open files is too low. Raise it ("ulimit -n", or LimitNOFILE in systemd) to 4096 or more.',
  ],
  ['locked', /\bLEVEL_LOCKED\b|already held by process|Resource temporarily unavailable/i, whoHolds],
  [
    'corrupt',
    // A file that LevelDB looks for, other than its lock, or a place in a table that lies outside of it.
    /\bLEVEL_CORRUPTION\b|Corruption:|IO error: .*(?<!\/LOCK): No such file|\.(?:ldb|sst): Invalid argument/is,
    `The database files are damaged. ${FIX}`,
  ],
  [
    'io',
    /\b(?:ENOTDIR|ENAMETOOLONG|ELOOP)\b|Not a directory|File name too long|Too many levels/i,
    'That path leads to no directory: part of it is a file, a loop of links, or too long a name. Choose another directory.',
  ],
  [
    'io',
    /\b(?:ENOENT|ENOTEMPTY|EEXIST)\b/,
    'The directory has just changed: something in it was removed, moved or created, or its disk was unmounted. Put it back, or ' +
      'choose another directory.',
  ],
  [
    'io',
    /\bEFBIG\b|File too large/i,
    'No file may grow that large. Raise the limit of file sizes ("ulimit -f", or LimitFSIZE in systemd), or choose a ' +
      'directory on another file system, then start again; what was indexed is safe.',
  ],
  [
    'io',
    /\bENOMEM\b|Cannot allocate memory/i,
    'The system gives this process no more memory. Free some, or raise the limit ("ulimit -v", LimitAS in systemd, ' +
      'vm.max_map_count), then start again; what was indexed is safe.',
  ],
  [
    'io',
    /\b(?:EINVAL|ENOLCK|ENODEV|ENOSYS|EOPNOTSUPP|ENOTSUP)\b|Invalid argument|No locks available|No such device(?! or)|Operation not supported|Function not implemented/i,
    'The file system lacks what a database needs (locks, files mapped into memory), as some network and shared folders ' +
      'do, or its device is gone. Choose a directory on a local disk.',
  ],
  [
    'io',
    /\b(?:LEVEL_IO_ERROR|EIO|EISDIR|EBUSY|ENXIO)\b|IO error/i,
    'The device or the file system failed. Look at the system log, and check the disk and the path.',
  ],
];

function whoHolds(path: string): string {
  const holder = lockHolder(path);
  return holder === undefined
    ? 'Another process uses this directory: a running daemon, or a command that reads the store. ' +
        'Find it with "fuser LOCK" or "lsof LOCK" inside the directory, stop it, or choose another --data-dir.'
    : `The directory is in use by ${holder}. Stop it, wait for it, or choose another --data-dir.`;
}

/**
 * Turns a low-level failure into an error that the operator can act on. `doing` completes "Cannot …" ("open the
 * store"). An error that is not a storage fault is a bug and is returned unchanged.
 */
export function storageErrorFrom(error: unknown, doing: string, path: string): unknown {
  if (error instanceof OperatorError) return error;
  const causes = causesOf(error);
  const fault = faults.find(([, pattern]) => causes.some((cause) => pattern.test(wordsOf(cause))));
  const innermost = causes.at(-1);
  if (fault === undefined || innermost === undefined) return error;
  const [kind, , advice] = fault;
  const words = typeof advice === 'string' ? advice : advice(path);
  return new StorageError(kind, `Cannot ${doing} at ${path} (${innermost.message}). ${words}`, {
    cause: error,
  });
}

const MAX_CAUSES = 8;

/** An error and its causes, outermost first. */
export function causesOf(error: unknown): Error[] {
  const found: Error[] = [];
  for (let current = error; current instanceof Error && found.length < MAX_CAUSES; current = current.cause) {
    found.push(current);
  }
  return found;
}

function wordsOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? `${error.code} ${error.message}` : error.message;
}

/** True for an error of the operating system with this code (`ENOENT`, …). */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** `undefined` for what is damaged, after `onDamage`. */
export async function unlessDamaged<T>(
  read: () => T | Promise<T>,
  onDamage: (damage: StorageError) => void = () => undefined,
): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!isCorruption(error)) throw error;
    onDamage(error);
    return undefined;
  }
}

/** True for damaged stored bytes, which `verify` reports and `rewind` removes. */
export function isCorruption(error: unknown): error is StorageError {
  return error instanceof StorageError && error.kind === 'corrupt';
}
