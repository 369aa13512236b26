import { crc32 } from 'node:zlib';
import { Level } from 'level';
import { defaultTuning } from '../../../src/storage/leveldb/directory/openLevel.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import type { LevelTuning } from '../../../src/storage/leveldb/directory/openLevel.js';

/**
 * The *store only* writer: LevelDB and nothing else, given the very entries that the product writes. It checks nothing,
 * keeps no state and answers nobody, and its keys and values are made here a second time, so that it stays a limit of its
 * own; `npx tsx test/bench/indexOnly.ts` compares the two stores byte by byte.
 */
export interface StoreOnlyOptions {
  readonly path: string;
  /** What the product never leaves out. */
  readonly sync: boolean;
  readonly tuning?: Partial<LevelTuning>;
}

export type KeyValue = readonly [key: Buffer, value: Buffer];

/** A chained batch that is used again and again, as the product does. */
interface Batch {
  _put(key: Buffer, value: Buffer): void;
  _clear(): void;
  _write(options: { readonly sync: boolean }): Promise<void>;
}

export class StoreOnlyWriter {
  /** Bytes of keys and values that were put. */
  putBytes = 0;
  readonly #options: StoreOnlyOptions;
  readonly #level: Level<Buffer, Buffer>;
  readonly #batch: Batch;

  private constructor(options: StoreOnlyOptions, level: Level<Buffer, Buffer>) {
    this.#options = options;
    this.#level = level;
    this.#batch = level.batch() as unknown as Batch;
  }

  static async open(options: StoreOnlyOptions): Promise<StoreOnlyWriter> {
    return new StoreOnlyWriter(options, await openLevel(options));
  }

  put(key: Buffer, value: Buffer): void {
    this.putBytes += key.length + value.length;
    this.#batch._put(key, value);
  }

  async write(): Promise<void> {
    await this.#batch._write({ sync: this.#options.sync });
    this.#batch._clear();
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.#level.get(key);
  }

  /** The lowest entry whose key begins like this. */
  async firstUnder(prefix: Buffer): Promise<KeyValue | undefined> {
    const iterator = this.#level.iterator({ gte: prefix, limit: 1 });
    const entry = await iterator.next();
    await iterator.close();
    return entry;
  }

  async *entries(): AsyncGenerator<KeyValue> {
    yield* this.#level.iterator();
  }

  /** Leaves everything in tables and nothing in the log, as the store does. */
  async close(): Promise<void> {
    await this.#level.close();
    const again = await openLevel(this.#options);
    await again.close();
  }
}

async function openLevel({ path, tuning }: StoreOnlyOptions): Promise<Level<Buffer, Buffer>> {
  const level = new Level<Buffer, Buffer>(path, levelOptions(tuning));
  await level.open();
  return level;
}

/** What the store gives LevelDB, as LevelDB calls it. */
function levelOptions(tuning: Partial<LevelTuning> = {}) {
  const { writeBufferBytes, cacheBytes, maxFileBytes, maxOpenFiles, blockBytes } = {
    ...defaultTuning,
    ...tuning,
  };
  return {
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    compression: true,
    writeBufferSize: writeBufferBytes,
    cacheSize: cacheBytes,
    maxFileSize: maxFileBytes,
    maxOpenFiles,
    blockSize: blockBytes,
  } as const;
}

/** First bytes of keys, as docs/architecture.md has them. */
export const KEY = {
  progress: 0x02,
  block: 0x10,
  body: 0x11,
  blockId: 0x20,
  collection: 0x21,
  transaction: 0x22,
};
const ID = 32;
const WHOLE_BODY_BYTES = 256 * 1024;

/** The entries of a block whose body is one value. */
export function blockKeyValues({ block, collections }: BlockEntry): KeyValue[] {
  const { height } = block;
  const body = Buffer.concat(collections.map(({ encoded }) => encoded));
  if (body.length > WHOLE_BODY_BYTES) throw new Error('the bench has no blocks with chunked bodies');
  const shapes = collections.flatMap(({ encoded, ranges }) => [encoded.length, ranges.length / 2]);
  const entries = [
    sealed(
      indexKey(KEY.block, undefined, height, []),
      Buffer.concat([words(body.length, collections.length, ...shapes), block.encoded]),
    ),
    sealed(indexKey(KEY.blockId, Buffer.from(block.id, 'hex'), height, []), words()),
  ];
  if (body.length > 0) entries.push(sealed(indexKey(KEY.body, undefined, height, [0]), body));
  let offset = 0;
  for (const [place, { id, encoded, ranges, transactionIds }] of collections.entries()) {
    entries.push(
      sealed(
        indexKey(KEY.collection, Buffer.from(id, 'hex'), height, [place]),
        words(offset, encoded.length),
      ),
    );
    for (let index = 0; index < ranges.length / 2; index += 1) {
      const transactionId = transactionIds.subarray(index * ID, (index + 1) * ID);
      const slice = words(offset + (ranges[2 * index] ?? 0), ranges[2 * index + 1] ?? 0);
      entries.push(sealed(indexKey(KEY.transaction, transactionId, height, [place, index]), slice));
    }
    offset += encoded.length;
  }
  return entries;
}

/** How far the store has got: part of every batch. */
export function progressKeyValue(latestIndexedHeight: number): KeyValue {
  return sealed(Buffer.of(KEY.progress), words(0, latestIndexedHeight + 1));
}

export function indexKey(
  prefix: number,
  id: Uint8Array | undefined,
  height: number,
  indexes: number[],
): Buffer {
  const head = 1 + (id?.length ?? 0);
  const result = Buffer.allocUnsafe(head + 8 + 4 * indexes.length);
  result[0] = prefix;
  if (id !== undefined) result.set(id, 1);
  result.writeUInt32BE(0, head);
  result.writeUInt32BE(height, head + 4);
  for (const [place, index] of indexes.entries()) result.writeUInt32BE(index, head + 8 + 4 * place);
  return result;
}

export function words(...values: number[]): Buffer {
  const result = Buffer.allocUnsafe(4 * values.length);
  for (const [place, value] of values.entries()) result.writeUInt32BE(value, 4 * place);
  return result;
}

export function sealed(of: Buffer, payload: Uint8Array): KeyValue {
  const value = Buffer.allocUnsafe(payload.length + 4);
  value.set(payload);
  value.writeUInt32BE(crc32(payload, crc32(of)), payload.length);
  return [of, value];
}
