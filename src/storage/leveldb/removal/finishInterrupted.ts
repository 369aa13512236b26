import type { Logger } from '../../../observability/index.js';
import type { StoreMeta } from '../../port/stored.js';
import { coverageOf, readOpenRecords, readRewind } from '../../records/book/readState.js';
import { encodeOpenRecord } from '../../records/coding/jsonRecords.js';
import { seal } from '../../records/coding/seal.js';
import type { Database, WriteBatch } from '../../records/Database.js';
import { openKey, RANGES_SCHEMA_VERSION } from '../../records/schema.js';
import { finishRewind, removeBlocks } from './rewind.js';

/** Finishes a removal that an earlier process began. Expected errors: `StorageError`. */
export async function finishInterrupted(database: Database, meta: StoreMeta, logger: Logger): Promise<void> {
  const rewind = await readRewind(database);
  if (rewind !== undefined) {
    logger.info({ height: rewind.target, from: rewind.remaining }, 'finishing an interrupted rewind');
    await finishRewind(database, rewind, { logger, coverage: await coverageOf(database, meta) });
  }
  if (meta.schemaVersion < RANGES_SCHEMA_VERSION) return;
  for (const record of await readOpenRecords(database)) {
    const { from, to, keep, isDropped } = record;
    if (keep === undefined) continue;
    logger.info({ from, to }, 'finishing the removal of a range');
    const coverage = await coverageOf(database, meta);
    const write = (batch: WriteBatch): Promise<void> => batch.write();
    await removeBlocks(database, { from: keep + 1, to }, { coverage, write });
    using batch = database.batch();
    const key = openKey(from);
    if (isDropped) batch.del(key);
    else batch.put(key, seal(key, encodeOpenRecord({ ...record, keep: undefined })));
    await batch.write();
  }
}
