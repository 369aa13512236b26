import { crc32 } from 'node:zlib';
import { Level } from 'level';
import { defaultTuning } from '../../../src/storage/leveldb/directory/openLevel.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import { FIRST_HEIGHT, GROUP_HEIGHTS } from './blocks.js';

export type KeyValue = readonly [key: Buffer, value: Buffer];

/** A chained batch that is used again and again, as the product does. */
interface Batch {
  _put(key: Buffer, value: Buffer): void;
  _clear(): void;
  _write(options: { readonly sync: boolean }): Promise<void>;
}

/**
 * The *store only* writer: LevelDB and nothing else, given the very entries that the product writes. It checks nothing,
 * keeps no state and answers nobody, and its keys and values are made here a second time, so that it stays a limit of its
 * own; the bench `indexOnly` compares the two stores byte by byte.
 */
export class StoreOnlyWriter {
  /** Bytes of keys and values that were put. */
  putBytes = 0;
  readonly #path: string;
  readonly #sync: boolean;
  readonly #level: Level<Buffer, Buffer>;
  readonly #batch: Batch;

  private constructor(path: string, level: Level<Buffer, Buffer>, sync: boolean) {
    this.#path = path;
    this.#sync = sync;
    this.#level = level;
    this.#batch = level.batch() as unknown as Batch;
  }

  /** The product never writes without `sync`. */
  static async open(path: string, sync = true): Promise<StoreOnlyWriter> {
    return new StoreOnlyWriter(path, await openLevel(path), sync);
  }

  put(key: Buffer, value: Buffer): void {
    this.putBytes += key.length + value.length;
    this.#batch._put(key, value);
  }

  async write(): Promise<void> {
    await this.#batch._write({ sync: this.#sync });
    this.#batch._clear();
  }

  /** One block after the other, and a group of them durable at once; with `isAhead` the next group is made meanwhile. */
  async writeAll(
    heights: number,
    next: () => readonly KeyValue[],
    {
      isAhead = false,
      onWritten,
    }: { readonly isAhead?: boolean; readonly onWritten?: (heights: number) => void } = {},
  ): Promise<void> {
    let writing = Promise.resolve();
    for (let done = 0; done < heights; done += GROUP_HEIGHTS) {
      const size = Math.min(GROUP_HEIGHTS, heights - done);
      if (!isAhead) await writing;
      const entries = Array.from({ length: size }, next).flat();
      await writing;
      for (const [key, value] of entries) this.put(key, value);
      this.put(...progressKeyValue(FIRST_HEIGHT + done + size - 1));
      writing = this.write().then(() => onWritten?.(size));
    }
    await writing;
  }

  async *entries(): AsyncGenerator<KeyValue> {
    yield* this.#level.iterator();
  }

  /** Leaves everything in tables and nothing in the log, as the store does. */
  async close(): Promise<void> {
    await this.#level.close();
    const again = await openLevel(this.#path);
    await again.close();
  }
}

/** With what the store gives LevelDB, as LevelDB calls it. */
async function openLevel(path: string): Promise<Level<Buffer, Buffer>> {
  const { writeBufferBytes, cacheBytes, maxFileBytes, maxOpenFiles, blockBytes } = defaultTuning;
  const level = new Level<Buffer, Buffer>(path, {
    ...{ keyEncoding: 'buffer', valueEncoding: 'buffer', compression: true, maxOpenFiles },
    ...{ writeBufferSize: writeBufferBytes, cacheSize: cacheBytes, maxFileSize: maxFileBytes },
    blockSize: blockBytes,
  });
  await level.open();
  return level;
}

/** First bytes of keys, as docs/architecture.md has them. */
const KEY = { progress: 0x02, block: 0x10, body: 0x11, blockId: 0x20, collection: 0x21, transaction: 0x22 };
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

function indexKey(prefix: number, id: Uint8Array | undefined, height: number, indexes: number[]): Buffer {
  const head = 1 + (id?.length ?? 0);
  const result = Buffer.allocUnsafe(head + 8 + 4 * indexes.length);
  result[0] = prefix;
  if (id !== undefined) result.set(id, 1);
  result.writeUInt32BE(0, head);
  result.writeUInt32BE(height, head + 4);
  for (const [place, index] of indexes.entries()) result.writeUInt32BE(index, head + 8 + 4 * place);
  return result;
}

function words(...values: number[]): Buffer {
  const result = Buffer.allocUnsafe(4 * values.length);
  for (const [place, value] of values.entries()) result.writeUInt32BE(value, 4 * place);
  return result;
}

function sealed(of: Buffer, payload: Uint8Array): KeyValue {
  const value = Buffer.allocUnsafe(payload.length + 4);
  value.set(payload);
  value.writeUInt32BE(crc32(payload, crc32(of)), payload.length);
  return [of, value];
}
