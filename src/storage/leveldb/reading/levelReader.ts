import { identifierBytes } from '../../../flow/index.js';
import type { EndGate } from '../../../runtime/index.js';
import { readAccountPage } from '../../accounts/accountEntries.js';
import { readEvidence } from '../../records/blocks/committeeEvidence.js';
import { openPointer, type ReadPlace } from '../../records/blocks/openPointers.js';
import type { Database } from '../../records/Database.js';
import { contains } from '../../records/heightRanges.js';
import type { PointersOf, RecordSource } from '../../records/reading/RecordReader.js';
import { Replica } from '../../records/reading/Replica.js';
import { idKey, idRange } from '../../records/schema.js';
import { levelDatabase } from '../directory/levelDatabase.js';

/** The thread that opened the database first caches its blocks. */
const NO_CACHE_BYTES = 0;

/** What is stored in a LevelDB. */
export function levelSource(database: Database): RecordSource {
  return {
    values: database,
    pointers: levelPointers(database),
    evidence: () => readEvidence(database),
    accountPage: (query, coverage) => readAccountPage(database, query, coverage),
  };
}

/**
 * The read side of a store that another thread of this process has opened and writes to. `gate`: see `OpenOptions`.
 * Expected errors: `StorageError`.
 */
export async function openLevelReplica(path: string, gate?: EndGate): Promise<Replica> {
  const tuning = { cacheSize: NO_CACHE_BYTES };
  return levelReplica(await levelDatabase(path, { create: false, isShared: true, gate, tuning }));
}

/** Like `openLevelReplica`, over a database that is open already, which is closed with it. For the simulation. */
export function levelReplica(database: Database): Replica {
  return new Replica({ ...levelSource(database), close: () => database.close() });
}

/**
 * One read, and at most one more per range, because an uncovered pointer leads on to the next range. The places of an id
 * stand in one run of keys.
 */
function levelPointers(database: Database): PointersOf {
  return async (prefix, id, limit, coverage) => {
    const range = idRange(prefix, identifierBytes(id));
    const found: ReadPlace[] = [];
    let { gte } = range;
    for (;;) {
      const entries = await database.first({ gte, lt: range.lt }, limit - found.length);
      const pointers = entries.map(openPointer);
      const outside = pointers.findIndex(({ height }) => !contains(coverage, height));
      found.push(...pointers.slice(0, outside === -1 ? pointers.length : outside));
      const passed = pointers[outside];
      const next = passed && coverage.find(({ from }) => from > passed.height);
      if (next === undefined) return found;
      gte = idKey(prefix, identifierBytes(id), next.from);
    }
  };
}
