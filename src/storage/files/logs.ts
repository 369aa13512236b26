import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readRecordLog } from './recordLog.js';

/** A batch in a write-ahead log begins with its first sequence number (u64le) and the count of its entries (u32le). */
const BATCH_HEADER_BYTES = 12;
const COUNT_OFFSET = 8;
/** Of a sequence number LevelDB uses 56 bits, and no store comes to 48. */
const SEQUENCE_BYTES = 6;

export interface LogDamage {
  readonly file: string;
  readonly what: string;
  /** The length up to which the log is sound. What comes after it, later logs included, builds on what is lost. */
  readonly soundBytes: number;
}

/**
 * Checks that the write-ahead logs, in the order of their numbers, hold every batch since what the tables hold: the last
 * batch may be torn (it was not durable, nobody was told of it), but none before it may be missing. LevelDB would drop a
 * damaged batch and go on with the next. `lastSequence`: of what the tables hold, at the least; undefined: not known.
 */
export async function checkLogs(
  path: string,
  files: readonly string[],
  lastSequence: number | undefined,
): Promise<LogDamage | undefined> {
  let next: number | undefined;
  for (const file of files) {
    const { records, end } = readRecordLog(await readFile(join(path, file)));
    let soundBytes = 0;
    for (const record of records) {
      const first = sequenceOf(record.data);
      if (first === undefined) return { file, what: 'it holds a batch that cannot be read', soundBytes };
      const follows = next === undefined ? first <= (lastSequence ?? first) + 1 : first === next;
      if (!follows) return { file, what: 'batches that came before are missing', soundBytes };
      next = first + record.data.readUInt32LE(COUNT_OFFSET);
      soundBytes = record.end;
    }
    if (end === 'damaged') {
      return { file, what: `from byte ${soundBytes} on batches do not match their checksums`, soundBytes };
    }
  }
  return undefined;
}

function sequenceOf(batch: Buffer): number | undefined {
  return batch.length < BATCH_HEADER_BYTES ? undefined : batch.readUIntLE(0, SEQUENCE_BYTES);
}
