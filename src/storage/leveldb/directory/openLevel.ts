import { Level } from 'level';
import type { EndGate } from '../../../runtime/index.js';
import { causesOf, storageErrorFrom } from '../../StorageError.js';

const MIB = 1024 * 1024;

/**
 * Memory and files that LevelDB may use, in its own names; up to two write buffers are held in memory. Measured
 * (docs/decisions/0006-groups-and-leveldb-options.md): larger ones would mean less merging, but the tables made from them are
 * mapped into memory as a whole.
 */
const defaultTuning = {
  writeBufferSize: 16 * MIB,
  cacheSize: 64 * MIB,
  maxFileSize: 4 * MIB,
  maxOpenFiles: 2048,
};

export interface OpenOptions {
  readonly create: boolean;
  /** Overrides of the measured defaults. */
  readonly tuning?: Partial<typeof defaultTuning> | undefined;
  /** Other threads of this process may open it too; the first one to open it closes it last. Default: false. */
  readonly isShared?: boolean;
  /** For a thread that may be terminated from outside: LevelDB would hold a half-made iterator for ever. */
  readonly gate?: EndGate | undefined;
  /** For a database that is written to: how to wait for file descriptors. Default: a read waits a little. */
  readonly descriptors?: DescriptorWait | undefined;
}

/** What a database needs from its surroundings while it cannot open a file. */
export interface DescriptorWait {
  /** Reports why the database waits for a file descriptor; `undefined`: it no longer waits. */
  waits(why: string | undefined): void;
  /** Runs an action while no other thread has the database open. */
  alone(action: () => Promise<void>): Promise<void>;
}

/** Opens LevelDB itself, with bytes as keys and values. Expected errors: `StorageError`. */
export async function openLevel(path: string, options: OpenOptions): Promise<Level<Buffer, Buffer>> {
  const { create, isShared = false } = options;
  // Only in Node's implementation, and not in the types.
  const sharing = { multithreading: isShared };
  const level = new Level<Buffer, Buffer>(path, {
    ...sharing,
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    createIfMissing: create,
    ...defaultTuning,
    ...options.tuning,
  });
  try {
    await level.open();
    return level;
  } catch (error) {
    const isLost = causesOf(error).some(({ message }) => OPENING_FORBIDDEN.test(message));
    const fault = isLost ? new Error('Corruption: the file CURRENT is missing') : error;
    throw storageErrorFrom(fault, 'open the store', path);
  }
}

/** LevelDB's answer when the options forbid opening: it has taken the lock, and has not touched a file. */
const OPENING_FORBIDDEN = /exists \(error_if_exists is true\)|does not exist \(create_if_missing is false\)/;

/** Makes sure that no other process uses a database, without opening it. Expected errors: `StorageError`. */
export async function assertUnused(path: string): Promise<void> {
  const level = new Level(path, { createIfMissing: false, errorIfExists: true });
  try {
    await level.open();
  } catch (error) {
    if (causesOf(error).some(({ message }) => OPENING_FORBIDDEN.test(message))) return;
    throw storageErrorFrom(error, 'open the store', path);
  }
}

/**
 * LevelDB's own repair: makes a manifest of all tables that it can read, and tables of the logs. A key that was written to several
 * of them may have an earlier value until they are merged, except in an iterator. Expected errors: `StorageError`.
 */
export async function repairLevel(path: string): Promise<void> {
  try {
    // The types cover only what Node and browsers share; this exists in Node's implementation alone.
    await (Level as unknown as { repair(location: string): Promise<void> }).repair(path);
  } catch (error) {
    throw storageErrorFrom(error, 'repair the files of the store', path);
  }
}
