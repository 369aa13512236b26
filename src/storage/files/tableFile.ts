import { maskedCrc } from './crc32c.js';

/**
 * The format of LevelDB's table files, as far as its own checksums go. LevelDB as we get it does not check them when it
 * reads, and a damaged key makes it abort the whole process; so verification checks the files before it lets LevelDB at
 * them. Format: blocks of `contents, u8 compression, u32le masked CRC-32C of both`, then a footer of 48 bytes that
 * locates the metaindex and the index block; each index entry's value locates a data block.
 */

/** Where a block's contents stand in the file; compression byte and checksum follow them. */
export interface BlockHandle {
  readonly offset: number;
  readonly size: number;
}

/** What of a table does not match its checksums. */
export interface TableDamage {
  /** Data blocks whose entries cannot be trusted. */
  readonly blocks: readonly BlockHandle[];
  /** The footer or the index is damaged: no entry of the table can be found any more. */
  readonly unreadable: boolean;
  /** The filter that spares point reads is damaged: they may miss entries that exist. */
  readonly filter: boolean;
  /** What to blank when the filter is damaged; undefined when it is damaged itself. */
  readonly metaindex: BlockHandle | undefined;
}

const FOOTER_BYTES = 48;
const MAGIC = Buffer.from('57fb808b247547db', 'hex');
const BLOCK_TRAILER_BYTES = 5;
const SNAPPY = 1;

/** `undefined` for a sound table. */
export function checkTable(file: Buffer): TableDamage | undefined {
  const footer = parseFooter(file);
  if (footer === undefined) {
    return { blocks: [], unreadable: true, filter: false, metaindex: undefined };
  }
  const { index, metaindex } = footer;
  const handles = handlesIn(file, index);
  const filters = handlesIn(file, metaindex);
  const blocks = (handles ?? []).filter((handle) => !isSound(file, handle));
  const filter = filters?.every((handle) => isSound(file, handle)) !== true;
  if (handles !== undefined && blocks.length === 0 && !filter) return undefined;
  return {
    blocks,
    unreadable: handles === undefined,
    filter,
    // LevelDB does without a metaindex that it cannot read; and where a wrong handle points, entries may stand.
    metaindex: filters === undefined ? undefined : metaindex,
  };
}

/** Blanks a block: it becomes a sound one without entries, and LevelDB reads on behind it. */
export function blankBlock(file: Buffer, { offset, size }: BlockHandle): void {
  file.fill(0, offset, offset + size + 1);
  file.writeUInt32LE(maskedCrc(file, offset, offset + size + 1), offset + size + 1);
}

/** True for a table that can be read and has a block that is not blank. */
export function hasEntries(file: Buffer): boolean {
  const footer = parseFooter(file);
  const handles = footer && handlesIn(file, footer.index);
  return handles?.some(({ offset, size }) => !isBlank(file.subarray(offset, offset + size + 1))) === true;
}

function isBlank(block: Buffer): boolean {
  return block.every((byte) => byte === 0);
}

/** Bytes of a block without entries: its number of restart points, 0. */
const EMPTY_BLOCK_BYTES = 4;

/** A table of this many bytes without entries, to stand where one is that cannot be read any more. */
export function emptyTable(size: number): Buffer {
  const file = Buffer.alloc(Math.max(size, FOOTER_BYTES + EMPTY_BLOCK_BYTES + BLOCK_TRAILER_BYTES));
  blankBlock(file, { offset: 0, size: EMPTY_BLOCK_BYTES });
  const footer = file.subarray(file.length - FOOTER_BYTES);
  // Metaindex and index: the same empty block at the front.
  footer.set([0, EMPTY_BLOCK_BYTES, 0, EMPTY_BLOCK_BYTES]);
  MAGIC.copy(footer, FOOTER_BYTES - MAGIC.length);
  return file;
}

function parseFooter(
  file: Buffer,
): { readonly metaindex: BlockHandle; readonly index: BlockHandle } | undefined {
  if (file.length < FOOTER_BYTES) return undefined;
  const footer = file.subarray(file.length - FOOTER_BYTES);
  if (!footer.subarray(FOOTER_BYTES - MAGIC.length).equals(MAGIC)) return undefined;
  const cursor = new Cursor(footer);
  const metaindex = readHandle(cursor, file);
  const index = readHandle(cursor, file);
  return metaindex && index && { metaindex, index };
}

/** The handles that are the values of a block's entries; `undefined` when the block is damaged. */
function handlesIn(file: Buffer, handle: BlockHandle): BlockHandle[] | undefined {
  if (!isSound(file, handle)) return undefined;
  const stored = file.subarray(handle.offset, handle.offset + handle.size);
  const contents = file[handle.offset + handle.size] === SNAPPY ? unsnappy(stored) : stored;
  if (contents === undefined || contents.length < 4) return undefined;
  const restartPoints = contents.readUInt32LE(contents.length - 4);
  if (restartPoints === 0) return [];
  const end = contents.length - 4 - 4 * restartPoints;
  if (end < 0) return undefined;
  const cursor = new Cursor(contents.subarray(0, end));
  const handles: BlockHandle[] = [];
  while (!cursor.done) {
    cursor.varint();
    const unshared = cursor.varint();
    const valueLength = cursor.varint();
    cursor.skip(unshared);
    const value = cursor.take(valueLength);
    const located = readHandle(new Cursor(value), file);
    if (cursor.failed || located === undefined) return undefined;
    handles.push(located);
  }
  return handles;
}

function readHandle(cursor: Cursor, file: Buffer): BlockHandle | undefined {
  const offset = cursor.varint();
  const size = cursor.varint();
  if (cursor.failed || offset + size + BLOCK_TRAILER_BYTES > file.length - FOOTER_BYTES) return undefined;
  return { offset, size };
}

function isSound(file: Buffer, { offset, size }: BlockHandle): boolean {
  return maskedCrc(file, offset, offset + size + 1) === file.readUInt32LE(offset + size + 1);
}

/** Reads a buffer from its front; after an impossible read `failed` is set and everything reads as 0. */
class Cursor {
  failed = false;
  readonly #bytes: Buffer;
  #position = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.failed || this.#position >= this.#bytes.length;
  }

  byte(): number {
    const byte = this.#bytes[this.#position];
    if (byte === undefined) this.failed = true;
    this.#position += 1;
    return byte ?? 0;
  }

  varint(): number {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 49; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    this.failed = true;
    return 0;
  }

  take(length: number): Buffer {
    const start = this.#position;
    this.skip(length);
    return this.#bytes.subarray(start, start + length);
  }

  skip(length: number): void {
    this.#position += length;
    if (this.#position > this.#bytes.length) this.failed = true;
  }

  little(bytes: number): number {
    let value = 0;
    for (let index = 0; index < bytes; index += 1) value += this.byte() * 2 ** (8 * index);
    return value;
  }
}

/** Snappy's raw format: a length, then literals and copies of what was written before. */
function unsnappy(compressed: Buffer): Buffer | undefined {
  const cursor = new Cursor(compressed);
  const length = cursor.varint();
  // No Snappy stream expands more than this, so a wrong length allocates nothing absurd.
  if (length > 64 * compressed.length) return undefined;
  const output = Buffer.alloc(length);
  let written = 0;
  while (!cursor.done) {
    const tag = cursor.byte();
    if ((tag & 3) === 0) {
      const short = tag >>> 2;
      const literal = (short < 60 ? short : cursor.little(short - 59)) + 1;
      written += cursor.take(literal).copy(output, written);
      continue;
    }
    const [count, back] = copyOf(tag, cursor);
    if (back === 0 || back > written || written + count > length) return undefined;
    for (let index = 0; index < count; index += 1, written += 1)
      output[written] = output[written - back] as number;
  }
  return cursor.failed || written !== length ? undefined : output;
}

function copyOf(tag: number, cursor: Cursor): [count: number, back: number] {
  switch (tag & 3) {
    case 1:
      return [((tag >>> 2) & 7) + 4, ((tag >>> 5) << 8) + cursor.byte()];
    case 2:
      return [(tag >>> 2) + 1, cursor.little(2)];
    default:
      return [(tag >>> 2) + 1, cursor.little(4)];
  }
}
