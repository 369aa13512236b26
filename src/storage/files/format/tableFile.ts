import { maskedCrc } from './crc32c.js';
import { Cursor } from './Cursor.js';
import type { KeySpan } from './manifest.js';
import { areInOrder, EMPTY_BLOCK_BYTES, entriesOf, withoutTrailer } from './tableBlock.js';
import type { BlockHandle } from './tableBlock.js';

/**
 * LevelDB's table files. Our build of LevelDB does not check their checksums on reads, and a damaged key makes it abort
 * the whole process; so verification checks the files before LevelDB opens them. Format: blocks of
 * `contents, u8 compression, u32le masked CRC-32C of both`, then a footer of 48 bytes that locates the metaindex and the
 * index block. The value of each index entry locates a data block; its key lies between the keys of that block and the
 * next.
 */

export interface DamagedBlock extends BlockHandle {
  /** `contents`: its checksum is right, but it cannot be parsed. */
  readonly what: 'checksum' | 'contents';
  /** Above this key, or from the first of the table on, … */
  readonly above: Buffer | undefined;
  /** … up to this one. */
  readonly through: Buffer;
}

/** The damage of one table. */
export interface TableDamage {
  /** Data blocks whose entries cannot be trusted. */
  readonly blocks: readonly DamagedBlock[];
  /** The footer or the index is damaged: none of its entries can be found any more. */
  readonly unreadable: boolean;
  /** The filter that saves point reads is damaged: they may miss entries that exist. */
  readonly filter: boolean;
  /** What to blank when the filter is damaged; undefined when the metaindex itself is damaged. */
  readonly metaindex: BlockHandle | undefined;
}

/** A table that cannot be read at all: missing, truncated, or without a footer. */
export const UNREADABLE_TABLE: TableDamage = {
  blocks: [],
  unreadable: true,
  filter: false,
  metaindex: undefined,
};

export interface TableCheck {
  /** Whether to parse blocks with correct checksums as well: several times the work. */
  readonly contents: boolean;
}

const FOOTER_BYTES = 48;
const MAGIC = Buffer.from('57fb808b247547db', 'hex');
const BLOCK_TRAILER_BYTES = 5;

/** Bytes checked at a time where the event loop has other work: a fraction of a millisecond. */
const STEP_BYTES = 128 * 1024;

/** `undefined` for a sound table. */
export function checkTable(file: Buffer, check: TableCheck): TableDamage | undefined {
  const steps = checkTableInSteps(file, check);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Like `checkTable`, with a yield after every STEP_BYTES. */
export function* checkTableInSteps(
  file: Buffer,
  check: TableCheck,
): Generator<undefined, TableDamage | undefined> {
  const footer = parseFooter(file);
  if (footer === undefined) return UNREADABLE_TABLE;
  const index = readIndex(file, footer.index);
  const filters = handlesIn(file, footer.metaindex);
  yield;
  const blocks = index === undefined ? [] : yield* damagedBlocks(file, index, check);
  const filter = filters?.every((handle) => isSound(file, handle)) !== true;
  if (index !== undefined && blocks.length === 0 && !filter) return undefined;
  return {
    blocks,
    unreadable: index === undefined,
    filter,
    // LevelDB works without an unreadable metaindex; and a wrong handle may point at entries.
    metaindex: filters === undefined ? undefined : footer.metaindex,
  };
}

/** The damage in words. */
export interface DescribedDamage {
  readonly what: string;
  /** The entries that may be lost; `undefined`: any of the table. */
  readonly keys?: Partial<KeySpan>;
}

/** A table whose size differs from the one in the manifest. */
export function wrongSize(size: number, expected: number): string {
  return size < expected
    ? `it is truncated: ${size} of ${expected} bytes`
    : `it has ${size} bytes instead of ${expected}`;
}

export function* describeDamage({
  blocks,
  unreadable,
  filter,
}: TableDamage): Generator<DescribedDamage, void> {
  if (unreadable) {
    yield { what: 'its footer or index is damaged: none of its entries can be found' };
  }
  for (const { offset, size, what, above, through } of blocks) {
    const fault =
      what === 'checksum' ? 'does not match its checksum' : 'cannot be read though its checksum is right';
    yield {
      what: `the block at offset ${offset} (${size} bytes) ${fault}`,
      keys: {
        through: withoutTrailer(through),
        ...(above === undefined ? {} : { from: withoutTrailer(above) }),
      },
    };
  }
  if (filter && !unreadable)
    yield { what: 'its filter does not match its checksum: lookups may miss entries' };
}

/** The sound data blocks of a table, in order; none when it cannot be read. */
export function blocksOfTable(file: Buffer): readonly BlockHandle[] {
  const footer = parseFooter(file);
  const index = footer && readIndex(file, footer.index);
  return (index ?? []).map(({ handle }) => handle).filter((handle) => isSound(file, handle));
}

/** A data block as the index lists it. */
interface Indexed {
  readonly handle: BlockHandle;
  /** Not below the last key of the block, and below the first of the next one. */
  readonly through: Buffer;
}

function* damagedBlocks(
  file: Buffer,
  index: readonly Indexed[],
  { contents }: TableCheck,
): Generator<undefined, DamagedBlock[]> {
  const damaged: DamagedBlock[] = [];
  let stepBytes = 0;
  for (const [nth, { handle, through }] of index.entries()) {
    stepBytes += handle.size;
    if (stepBytes >= STEP_BYTES) {
      stepBytes = 0;
      yield;
    }
    const above = index[nth - 1]?.through;
    const keys = { above, through };
    if (!isSound(file, handle)) damaged.push({ ...handle, ...keys, what: 'checksum' });
    else if (contents && !isReadable(file, handle, above, through))
      damaged.push({ ...handle, ...keys, what: 'contents' });
  }
  return damaged;
}

/** True when LevelDB can read all entries of the block and find them by the index. */
function isReadable(file: Buffer, handle: BlockHandle, above: Buffer | undefined, through: Buffer): boolean {
  const entries = entriesOf(file, handle);
  return entries !== undefined && areInOrder(entries, { above, through });
}

/** Blanks a block: it becomes a sound one without entries, and LevelDB continues behind it. */
export function blankBlock(file: Buffer, { offset, size }: BlockHandle): void {
  file.fill(0, offset, offset + size + 1);
  file.writeUInt32LE(maskedCrc(file, offset, offset + size + 1), offset + size + 1);
}

/** True for a readable table with a block that is not blank. */
export function hasEntries(file: Buffer): boolean {
  const footer = parseFooter(file);
  const index = footer && readIndex(file, footer.index);
  return index?.some(({ handle }) => !isBlank(file, handle)) === true;
}

function isBlank(file: Buffer, { offset, size }: BlockHandle): boolean {
  return file.subarray(offset, offset + size + 1).every((byte) => byte === 0);
}

/** An empty table of this many bytes, to replace one that cannot be read any more. */
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

/** The data blocks of a table, in order; `undefined` when the index is damaged. */
function readIndex(file: Buffer, handle: BlockHandle): Indexed[] | undefined {
  const entries = isSound(file, handle) ? entriesOf(file, handle) : undefined;
  if (entries === undefined || !areInOrder(entries)) return undefined;
  const index: Indexed[] = [];
  let end = 0;
  for (const { key, value } of entries) {
    const located = readHandle(new Cursor(value), file);
    // Blocks must not overlap, so that a damaged one can be blanked without touching another.
    if (located === undefined || located.offset < end) return undefined;
    end = located.offset + located.size + BLOCK_TRAILER_BYTES;
    index.push({ handle: located, through: key });
  }
  return index;
}

/** The handles that are the values of a block's entries; `undefined` when the block is damaged. */
function handlesIn(file: Buffer, handle: BlockHandle): BlockHandle[] | undefined {
  const entries = isSound(file, handle) ? entriesOf(file, handle) : undefined;
  const handles: BlockHandle[] = [];
  for (const { value } of entries ?? []) {
    const located = readHandle(new Cursor(value), file);
    if (located === undefined) return undefined;
    handles.push(located);
  }
  return entries && handles;
}

/** The handle of a possible block: within the file, and large enough to be blanked. */
function readHandle(cursor: Cursor, file: Buffer): BlockHandle | undefined {
  const offset = cursor.varint();
  const size = cursor.varint();
  if (cursor.failed || size < EMPTY_BLOCK_BYTES) return undefined;
  if (offset + size + BLOCK_TRAILER_BYTES > file.length - FOOTER_BYTES) return undefined;
  return { offset, size };
}

function isSound(file: Buffer, { offset, size }: BlockHandle): boolean {
  return maskedCrc(file, offset, offset + size + 1) === file.readUInt32LE(offset + size + 1);
}
