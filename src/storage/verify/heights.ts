import type { Database } from '../Database.js';
import { openBlockRecord } from '../reading.js';
import type { KeyRange } from '../schema.js';
import { blockKey, heightRange, parseBlockKey, parseBodyKey, Prefix, prefixRange } from '../schema.js';
import { isCorruption } from '../StorageError.js';
import { readBodyValues } from '../wholeBlock.js';
import type { BodyValues } from '../wholeBlock.js';
import type { HeightRun } from './PointerBalance.js';
import type { DamageList } from './report.js';

/** What is stored for one height: at least one of the two. */
export interface StoredHeight {
  readonly height: number;
  readonly record: Buffer | undefined;
  readonly body: BodyValues;
}

/**
 * Block records and bodies of a run of heights, ascending, in one pass over the disk. Keys that are none of ours are
 * damage. When the database reports damaged files, the rest is read height by height, so that the damage gets a name.
 * `whole`: look at every key of the two prefixes, impossible heights included.
 */
export async function* storedHeights(
  database: Database,
  { from, to }: HeightRun,
  whole: boolean,
  damages: DamageList,
): AsyncGenerator<StoredHeight, void, undefined> {
  let next = from;
  try {
    for await (const stored of stream(database, { from, to }, whole, damages)) {
      yield stored;
      next = stored.height + 1;
    }
    return;
  } catch (error) {
    damages.addError('database', error);
  }
  for (; next <= to; next += 1) {
    const stored = await readHeight(database, next, damages);
    if (stored !== undefined) yield stored;
  }
}

async function* stream(
  database: Database,
  { from, to }: HeightRun,
  whole: boolean,
  damages: DamageList,
): AsyncGenerator<StoredHeight, void, undefined> {
  const rangeOf = (prefix: typeof Prefix.block | typeof Prefix.body): KeyRange =>
    whole ? prefixRange(prefix) : heightRange(prefix, from, to);
  const records = cursor(database, rangeOf(Prefix.block), damages, (key) => {
    const height = parseBlockKey(key);
    return height === undefined ? undefined : { height, chunk: 0 };
  });
  const bodies = cursor(database, rangeOf(Prefix.body), damages, parseBodyKey);
  try {
    let record = await records.next();
    let body = await bodies.next();
    while (record.done !== true || body.done !== true) {
      const height = Math.min(
        record.done === true ? Infinity : record.value.height,
        body.done === true ? Infinity : body.value.height,
      );
      let value: Buffer | undefined;
      if (record.done !== true && record.value.height === height) {
        value = record.value.value;
        record = await records.next();
      }
      const chunks = new Map<number, Buffer>();
      while (body.done !== true && body.value.height === height) {
        chunks.set(body.value.chunk, body.value.value);
        body = await bodies.next();
      }
      yield { height, record: value, body: chunks };
    }
  } finally {
    await records.return();
    await bodies.return();
  }
}

interface Positioned {
  readonly height: number;
  readonly chunk: number;
  readonly value: Buffer;
}

async function* cursor(
  database: Database,
  range: KeyRange,
  damages: DamageList,
  parse: (key: Buffer) => { readonly height: number; readonly chunk: number } | undefined,
): AsyncGenerator<Positioned, void, undefined> {
  for await (const page of database.pages(range)) {
    for (const [key, value] of page) {
      const position = parse(key);
      if (position === undefined) {
        damages.add('unexpected', undefined, `key ${key.toString('hex')} is not one of ours`);
      } else {
        yield { ...position, value };
      }
    }
  }
}

async function readHeight(
  database: Database,
  height: number,
  damages: DamageList,
): Promise<StoredHeight | undefined> {
  const key = blockKey(height);
  try {
    const record = await database.get(key);
    if (record === undefined) return undefined;
    const bodyLength = lengthOfBody(key, record, height);
    return { height, record, body: await readBodyValues(database, height, bodyLength) };
  } catch (error) {
    if (!isCorruption(error)) throw error;
    damages.add('database', height, `the block of height ${height} cannot be read: ${error.message}`);
    return undefined;
  }
}

/** 0 when the record is damaged, which is found out later. */
function lengthOfBody(key: Buffer, record: Buffer, height: number): number {
  try {
    return openBlockRecord(key, record, height).bodyLength;
  } catch (error) {
    if (!isCorruption(error)) throw error;
    return 0;
  }
}
