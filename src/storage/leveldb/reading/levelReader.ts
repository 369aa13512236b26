import { identifierBytes } from '../../../flow/index.js';
import { readEvidence } from '../../records/blocks/committeeEvidence.js';
import { openPointer } from '../../records/blocks/openPointers.js';
import type { ReadPlace } from '../../records/blocks/openPointers.js';
import type { Database } from '../../records/Database.js';
import { contains } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { RecordReader } from '../../records/reading/RecordReader.js';
import type { PointersOf } from '../../records/reading/RecordReader.js';
import { idKey, idRange } from '../../records/schema.js';

/** Reads what is stored in a LevelDB. */
export function levelReader(database: Database, coverage: () => HeightRanges): RecordReader {
  const evidence = () => readEvidence(database);
  return new RecordReader({ values: database, pointers: levelPointers(database), evidence, coverage });
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
