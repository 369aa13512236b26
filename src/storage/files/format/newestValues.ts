import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Cursor } from './Cursor.js';
import { tableName } from './fileNames.js';
import { BATCH_HEADER_BYTES, batchHeader } from './logs.js';
import type { Manifest } from './manifest.js';
import { readRecordLog } from './recordLog.js';
import { readIfThere } from './readIfThere.js';
import { blocksOfTable } from './tableFile.js';
import { areInOrder, entriesOf, sequenceOfKey, withoutTrailer } from './tableBlock.js';

const PUT = 1;

/** The value of a key and when it was written; `undefined`: it was deleted then. */
interface Written {
  readonly sequence: number;
  readonly value: Buffer | undefined;
}

/**
 * The newest values of a few keys, by key in hexadecimal, from the files of a database that is not opened, and so not
 * changed. Reads the existing tables whose spans contain one of the keys, and the write-ahead logs. Expected errors:
 * those of the file system, where another process uses the database.
 */
export async function newestValues(
  path: string,
  keys: readonly Buffer[],
  files: { readonly manifest: Manifest; readonly logs: readonly string[] },
): Promise<ReadonlyMap<string, Buffer>> {
  const { logs, manifest } = files;
  const newest = new Map<string, Written>();
  const wanted = new Set(keys.map((key) => key.toString('hex')));
  const note = (key: Buffer, sequence: number, value: Buffer | undefined): void => {
    const name = key.toString('hex');
    if (!wanted.has(name)) return;
    const known = newest.get(name);
    if (known === undefined || sequence >= known.sequence) newest.set(name, { sequence, value });
  };
  for (const [number, { from, through }] of manifest.spans) {
    const isHere = keys.some((key) => key.compare(from) >= 0 && key.compare(through) <= 0);
    if (!manifest.tables.has(number) || !isHere) continue;
    const file = await readIfThere(join(path, tableName(number)));
    if (file === undefined) continue;
    for (const block of blocksOfTable(file)) {
      const entries = entriesOf(file, block);
      if (entries === undefined || !areInOrder(entries)) continue;
      for (const { key, value } of entries) {
        const { isPut, sequence } = sequenceOfKey(key);
        note(withoutTrailer(key), sequence, isPut ? value : undefined);
      }
    }
  }
  for (const log of logs) {
    for (const { data } of readRecordLog(await readFile(join(path, log))).records) noteBatch(data, note);
  }
  const found = [...newest].flatMap(([name, { value }]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  return new Map(found);
}

function noteBatch(
  batch: Buffer,
  note: (key: Buffer, sequence: number, value: Buffer | undefined) => void,
): void {
  const header = batchHeader(batch);
  if (header === undefined) return;
  const { first, count } = header;
  const cursor = new Cursor(batch.subarray(BATCH_HEADER_BYTES));
  for (let index = 0; index < count && !cursor.done; index += 1) {
    const kind = cursor.byte();
    const key = cursor.take(cursor.varint());
    const value = kind === PUT ? cursor.take(cursor.varint()) : undefined;
    if (!cursor.failed) note(key, first + index, value);
  }
}
