import { timeOfBlock, transactionAt, VerificationMemory } from '../../flow/index.js';
import { verifiedBlock } from '../../storage/index.js';
import type { BlockEntry, HeightRange, IndexReader, WholeBlock } from '../../storage/index.js';
import * as T from '../Schema.js';
import { heightOutside, invalidArgument as invalid } from '../view/ApiError.js';
import { heightIn, type Query } from '../view/queryParameters.js';
import { base64, rfc3339, transactionBody, transactionBodySchema } from '../json.js';
import { rangeWith, type IndexedRange } from '../view/indexedRange.js';
import { countedCollections } from './lookupDocument.js';

/** One JSON value per line. */
export const NDJSON_TYPE = 'application/x-ndjson';

export const MAX_PAGE_HEIGHTS = 1_000;
/** A page ends with the block that reaches this length, in characters or bytes; a block is never split. */
export const PAGE_BYTES = 1024 * 1024;
/** Heights read at once: one at a time, each would wake a thread of the pool, or wait for the database. */
const READ_AT_ONCE = 16;

const ofBlock = { height: T.count, block_id: T.identifier, timestamp: T.time };

/** The first line of each block. A block without collections has one too, which shows that the height is indexed. */
const blockLine = T.object({
  kind: T.words('block'),
  ...ofBlock,
  parent_id: T.identifier,
  collections: countedCollections.note(
    'In guarantee order; the lines of their transactions follow in this order.',
  ),
}).named('ExportedBlock');

const transactionLine = T.object({
  kind: T.words('transaction'),
  ...ofBlock,
  collection_id: T.identifier,
  collection_index: T.count,
  transaction_index: T.count.note('Within the collection.'),
  transaction: transactionBodySchema,
}).named('ExportedTransaction');
type ExportedBlock = T.Described<typeof blockLine>;
type ExportedTransaction = T.Described<typeof transactionLine>;
export const exportLine = T.oneOf(blockLine, transactionLine).named('ExportLine');

const storedBytes = T.text.note('As stored, in base64: a protobuf message.');

export const storedLine = T.object({
  kind: T.words('stored'),
  height: T.count,
  block: storedBytes,
  collections: T.arrayOf(storedBytes).note(
    'In guarantee order, each a list of transactions: repeated Transaction transactions = 1.',
  ),
}).named('StoredBlock');
export type StoredLine = T.Described<typeof storedLine>;

/**
 * A page of whole blocks as lines, from `from` on: at most MAX_PAGE_HEIGHTS, none above `to` or the watermark. The bytes depend
 * only on the chain, and every collection is hashed again. Empty when `from` cannot be read. Expected errors: `StorageError`.
 */
export async function exportPage(reader: IndexReader, range: HeightRange): Promise<string> {
  const memory = new VerificationMemory();
  return pageOf(reader, range, (stored) => exportedLines(verifiedBlock(stored, memory)).join(''));
}

/**
 * Blocks with all their bytes, for clients that keep their own index: a line for each. Pages end like those of `exportPage`.
 * Expected errors: `StorageError`.
 */
export function storedPage(reader: IndexReader, range: HeightRange): Promise<string> {
  return pageOf(reader, range, ({ block, bodies }) => {
    const line: StoredLine = {
      kind: 'stored',
      height: block.height,
      block: base64(block.encoded),
      collections: bodies.map(base64),
    };
    return lineOf(line);
  });
}

async function pageOf(
  reader: IndexReader,
  { from, to }: HeightRange,
  textOf: (block: WholeBlock) => string,
): Promise<string> {
  const blocks: string[] = [];
  let characters = 0;
  const last = Math.min(to, from + MAX_PAGE_HEIGHTS - 1);
  let height = from;
  while (height <= last && characters < PAGE_BYTES) {
    // As many as the page still has room for, if they are like those before.
    const fitting = Math.ceil((PAGE_BYTES * blocks.length) / Math.max(1, characters)) - blocks.length;
    const length = Math.min(READ_AT_ONCE, Math.max(1, fitting), last - height + 1);
    const read = Array.from({ length }, (_, index) => reader.wholeBlock(height + index));
    for (const block of await Promise.all(read)) {
      if (block === undefined) return blocks.join('');
      const lines = textOf(block);
      blocks.push(lines);
      characters += lines.length;
      height += 1;
      if (characters >= PAGE_BYTES) break;
    }
  }
  return blocks.join('');
}

/** Parses the query of `/export`; both ends are included. Expected errors: ApiError (400, and 404 for a `from` that is not indexed). */
export function exportRange(query: Query, range: IndexedRange): HeightRange {
  const from = heightIn(query, 'from');
  const to = heightIn(query, 'to') ?? Number.MAX_SAFE_INTEGER;
  if (from === undefined) throw invalid('from is required: the height to begin at');
  if (from > to) throw invalid(`from ${from} is above to ${to}`);
  const covering = rangeWith(from, range);
  if (covering === undefined) throw heightOutside(from, range);
  return { from, to: Math.min(to, covering.to) };
}

/** Which lines of a block are wanted, and how. */
interface WantedLines {
  /** By the wire form of a transaction: only these, without the line of the block. Absent: all lines. */
  readonly wanted?: ((wire: Buffer) => boolean) | undefined;
  /** With the scripts of transactions. Default: yes. */
  readonly scripts?: boolean;
}

/** The lines of a block, each with a line feed: its own, then those of its transactions. */
export function exportedLines(
  { block, collections }: BlockEntry,
  { wanted, scripts = true }: WantedLines = {},
): string[] {
  const timestamp = rfc3339(timeOfBlock(block.encoded));
  const counts = collections.map(({ id, ranges }) => ({
    collection_id: id,
    transaction_count: ranges.length / 2,
  }));
  const own: ExportedBlock = {
    ...({ kind: 'block', height: block.height, block_id: block.id, parent_id: block.parentId } as const),
    timestamp,
    collections: counts,
  };
  const lines = wanted === undefined ? [lineOf(own)] : [];
  for (const [at, collection] of collections.entries()) {
    for (let index = 0; 2 * index < collection.ranges.length; index += 1) {
      const { id, wire } = transactionAt(collection, index);
      if (wanted?.(wire) === false) continue;
      const transaction = transactionBody({ id, encoded: wire });
      const line: ExportedTransaction = {
        ...({ kind: 'transaction', height: block.height, block_id: block.id, timestamp } as const),
        collection_id: collection.id,
        collection_index: at,
        transaction_index: index,
        transaction,
      };
      const shown = scripts ? line : { ...line, transaction: { ...transaction, script: undefined } };
      lines.push(lineOf(shown));
    }
  }
  return lines;
}

function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
