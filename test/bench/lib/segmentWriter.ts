import { mkdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { constants, crc32, deflateRaw } from 'node:zlib';
import type { BlockEntry, LevelTuning } from '../../../src/storage/index.js';
import {
  blockKeyValues,
  indexKey,
  KEY,
  progressKeyValue,
  sealed,
  StoreOnlyWriter,
  words,
} from './storeOnly.js';

/**
 * The prototype of decision 0004: bodies in append-only segments beside LevelDB, which holds block records, pointers,
 * where each body lies, and how far the last segment is committed. Nothing of it is in the product.
 *
 * Record: u32 length, u32 CRC-32 of height and body, body. A group is durable in two steps, in this order: the segment
 * is synced, then the LevelDB batch that points into it. What lies behind the committed end is cut off at the next open.
 */
export interface SegmentWriterOptions {
  readonly path: string;
  readonly deflate: boolean;
  readonly tuning?: Partial<LevelTuning>;
}

const SEGMENT_BYTES = 256 * 1024 * 1024;
const HEAD_BYTES = 8;
/** Where the committed end stands. */
const END_KEY = Buffer.of(0x7e);
const compress = promisify(deflateRaw);

export class SegmentWriter {
  readonly #options: SegmentWriterOptions;
  readonly #level: StoreOnlyWriter;
  #file: FileHandle;
  #segment: number;
  #end: number;
  #group: BlockEntry[] = [];
  #bodyBytes = 0;

  private constructor(
    options: SegmentWriterOptions,
    level: StoreOnlyWriter,
    place: { file: FileHandle; segment: number; end: number },
  ) {
    this.#options = options;
    this.#level = level;
    this.#file = place.file;
    this.#segment = place.segment;
    this.#end = place.end;
  }

  /** Opens, and cuts off what was appended and not committed: how many bytes is in `cutBytes`. */
  static async open(options: SegmentWriterOptions): Promise<{ writer: SegmentWriter; cutBytes: number }> {
    mkdirSync(options.path, { recursive: true });
    const level = await StoreOnlyWriter.open({ ...options, path: join(options.path, 'level'), sync: true });
    const stored = await level.get(END_KEY);
    const segment = stored?.readUInt32BE(0) ?? 0;
    const end = stored?.readUInt32BE(4) ?? 0;
    const file = await openSegment(options.path, segment);
    const { size } = await file.stat();
    await file.truncate(end);
    return { writer: new SegmentWriter(options, level, { file, segment, end }), cutBytes: size - end };
  }

  get putBytes(): number {
    return this.#level.putBytes + this.#bodyBytes;
  }

  get committedEnd(): number {
    return this.#end;
  }

  add(entry: BlockEntry): void {
    this.#group.push(entry);
  }

  async commit(latestIndexedHeight: number): Promise<void> {
    const group = this.#group;
    this.#group = [];
    const places = await this.append(group);
    for (const [index, entry] of group.entries()) {
      for (const [key, value] of blockKeyValues(entry)) if (key[0] !== KEY.body) this.#level.put(key, value);
      const place = places[index] ?? { segment: 0, offset: 0, length: 0 };
      this.#level.put(
        ...sealed(
          indexKey(KEY.body, undefined, entry.block.height, [0]),
          words(place.segment, place.offset, place.length),
        ),
      );
    }
    this.#level.put(...progressKeyValue(latestIndexedHeight));
    this.#level.put(END_KEY, words(this.#segment, this.#end));
    await this.#level.write();
  }

  /** The first step alone: bodies on disk, nothing that points at them. */
  async append(group: readonly BlockEntry[]): Promise<{ segment: number; offset: number; length: number }[]> {
    if (this.#end > SEGMENT_BYTES) await this.#nextSegment();
    const { deflate } = this.#options;
    const bodies = await Promise.all(
      group.map(async ({ collections }) => {
        const body = Buffer.concat(collections.map(({ encoded }) => encoded));
        this.#bodyBytes += body.length;
        return deflate ? compress(body, { level: constants.Z_BEST_SPEED }) : body;
      }),
    );
    let offset = this.#end;
    const places = bodies.map((body) => {
      const place = { segment: this.#segment, offset, length: body.length };
      offset += HEAD_BYTES + body.length;
      return place;
    });
    const parts = bodies.flatMap((body, index) => [
      words(body.length, crc32(body, group[index]?.block.height ?? 0)),
      body,
    ]);
    await this.#file.writev(parts, this.#end);
    await this.#file.datasync();
    this.#end = offset;
    return places;
  }

  async close(): Promise<void> {
    await this.#file.close();
    await this.#level.close();
  }

  async #nextSegment(): Promise<void> {
    await this.#file.close();
    this.#segment += 1;
    this.#end = 0;
    this.#file = await openSegment(this.#options.path, this.#segment);
    // A new name is durable only once its directory is.
    const directory = await open(this.#options.path, 'r');
    await directory.sync();
    await directory.close();
  }
}

function openSegment(path: string, segment: number): Promise<FileHandle> {
  const name = join(path, `${String(segment).padStart(6, '0')}.bodies`);
  return open(name, 'r+').catch(() => open(name, 'w+'));
}
