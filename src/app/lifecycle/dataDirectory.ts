import { once } from 'node:events';
import { access, constants, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import type { Logger } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import { storageErrorFrom } from '../../storage/index.js';
import { readDaemonRecord, storePathOf } from './daemonRecord.js';

/** Permission bits of everyone but the owner. */
const OTHERS = 0o077;
/** Windows has no such bits: every directory there reads as open to all. */
const hasModes = process.platform !== 'win32';

/**
 * Warns when users other than the owner may enter the data directory or the store in it; the daemon creates both for the
 * owner only. Changes nothing: the wider permissions may be intended.
 */
export async function warnOfOpenDirectory(
  dataDir: string,
  { logger }: { readonly logger: Logger },
): Promise<void> {
  if (!hasModes) return;
  for (const path of [dataDir, storePathOf(dataDir)]) {
    const mode = (await stat(path)).mode & 0o777;
    if ((mode & OTHERS) === 0) continue;
    const fields = { path, mode: mode.toString(8), advice: `chmod 700 ${path}` };
    logger.warn(fields, 'the data directory is open to other users of this machine');
    return;
  }
}

/** The daemon keeps its record and its socket there, wherever the index is. Expected errors: `StorageError`. */
export async function refuseUnwritable(dataDir: string): Promise<void> {
  try {
    await access(dataDir, constants.W_OK);
  } catch (error) {
    throw storageErrorFrom(error, 'write to the data directory', dataDir);
  }
}

/**
 * Refuses a data directory that another daemon uses. With the index in a database, no store lock does that, but record and
 * socket need a directory of their own. Expected errors: OperatorError `storage`.
 */
export async function refuseUsedDirectory(dataDir: string): Promise<void> {
  const record = readDaemonRecord(dataDir);
  if (record?.control === undefined || !(await isListening(record.control))) return;
  throw new OperatorError(
    'storage',
    `The data directory ${dataDir} is in use by another daemon (process ${record.pid}). Give every process on this machine ` +
      'a --data-dir of its own.',
  );
}

async function isListening(path: string): Promise<boolean> {
  const socket = connect({ path });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
