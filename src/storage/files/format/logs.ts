import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readRecordLog } from './recordLog.js';

/** A batch in a write-ahead log begins with its first sequence number (u64le) and the count of its entries (u32le). */
export const BATCH_HEADER_BYTES = 12;
const COUNT_OFFSET = 8;
/** LevelDB uses 56 bits of a sequence number, and no store reaches 48. */
const SEQUENCE_BYTES = 6;

export interface LogDamage {
  readonly file: string;
  readonly what: string;
  /** The length up to which the log is sound. Everything after it, later logs included, builds on what is lost. */
  readonly soundBytes: number;
}

/**
 * Checks that the write-ahead logs, in ascending order, hold every batch since those in the tables: the last batch may
 * be torn (it was not durable, nobody was notified), but none before it may be missing. LevelDB would drop a damaged
 * batch and continue with the next. `lastSequence`: the tables hold every batch up to this one, or more; `undefined`:
 * not known.
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
      const header = batchHeader(record.data);
      if (header === undefined) return { file, what: 'it holds a batch that cannot be read', soundBytes };
      const { first, count } = header;
      const follows = next === undefined ? first <= (lastSequence ?? first) + 1 : first === next;
      if (!follows) return { file, what: 'batches that came before are missing', soundBytes };
      next = first + count;
      soundBytes = record.end;
    }
    if (end === 'damaged') {
      return { file, what: `from byte ${soundBytes} on batches do not match their checksums`, soundBytes };
    }
  }
  return undefined;
}

/** The first sequence number and the number of entries of a batch; `undefined` for one that is too short. */
export function batchHeader(batch: Buffer): { readonly first: number; readonly count: number } | undefined {
  if (batch.length < BATCH_HEADER_BYTES) return undefined;
  return { first: batch.readUIntLE(0, SEQUENCE_BYTES), count: batch.readUInt32LE(COUNT_OFFSET) };
}
