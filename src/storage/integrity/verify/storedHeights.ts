import type { HeightRange } from '../../port/stored.js';
import type { BodyValues } from '../../records/blocks/assembleBlock.js';
import type { Database } from '../../records/Database.js';
import { heightRange, parseBlockKey, parseBodyKey, Prefix, prefixRange } from '../../records/schema.js';
import type { KeyRange } from '../../records/schema.js';
import type { DamageList } from './DamageList.js';

/** What is stored for one height: a record, a body, or both. */
export interface StoredHeight {
  readonly height: number;
  readonly record: Buffer | undefined;
  readonly body: BodyValues;
}

/**
 * Block records and bodies of a range, ascending, in one pass over the disk. Foreign keys are damage. `whole`: check
 * every key of the two prefixes, even with impossible heights. Expected errors: `StorageError`.
 */
export async function* storedHeights(
  database: Database,
  { from, to }: HeightRange,
  whole: boolean,
  damages: DamageList,
): AsyncGenerator<StoredHeight, void, undefined> {
  const keysOf = (prefix: typeof Prefix.block | typeof Prefix.body): KeyRange =>
    whole ? prefixRange(prefix) : heightRange(prefix, from, to);
  const records = cursor(database, keysOf(Prefix.block), damages, (key) => {
    const height = parseBlockKey(key);
    return height === undefined ? undefined : { height, chunk: 0 };
  });
  const bodies = cursor(database, keysOf(Prefix.body), damages, parseBodyKey);
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
