import { decodeBlock, splitCollection, toIdentifier, transactionId } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import type { IndexReader, StoredBlock, StoredCollection } from '../../storage/index.js';
import { ApiError, heightOutside } from '../view/ApiError.js';
import { list, parseHeight } from '../view/queryParameters.js';
import type { Query } from '../view/queryParameters.js';
import { transactionBody } from '../json/transaction.js';
import type { RestTransactionBody } from '../json/transaction.js';
import { rfc3339 } from '../json/scalars.js';
import { rangeWith } from '../view/statusDocument.js';
import type { IndexedRange } from '../view/statusDocument.js';

/** One JSON value per line. */
export const NDJSON_TYPE = 'application/x-ndjson';

/** Maximum heights per page. */
export const MAX_PAGE_HEIGHTS = 1_000;
/** A page ends with the block that brings it to this length; a block is never split. */
const PAGE_CHARACTERS = 1024 * 1024;

/** The first line of each block, also of one without collections: it shows that the height is indexed and empty. */
export interface ExportedBlock {
  readonly kind: 'block';
  readonly height: number;
  readonly block_id: Identifier;
  readonly parent_id: Identifier;
  /** RFC 3339, UTC. */
  readonly timestamp: string;
  /** In guarantee order; as many transaction lines follow, in this order. */
  readonly collections: readonly {
    readonly collection_id: Identifier;
    readonly transaction_count: number;
  }[];
}

/** One line per transaction, after the line of its block. */
export interface ExportedTransaction {
  readonly kind: 'transaction';
  readonly height: number;
  readonly block_id: Identifier;
  readonly timestamp: string;
  readonly collection_id: Identifier;
  readonly collection_index: number;
  /** Within the collection. */
  readonly transaction_index: number;
  /** As `get transaction` shows it. */
  readonly transaction: RestTransactionBody;
}

/** The requested heights, both ends included. */
export interface ExportRange {
  readonly from: number;
  readonly to: number;
}

/**
 * The lines of as many whole blocks, from `from` on, as make a page: at most MAX_PAGE_HEIGHTS, none above `to` or the
 * watermark. The bytes depend on the chain alone. Empty when `from` cannot be read. Expected errors: `StorageError`.
 */
export async function exportPage(reader: IndexReader, { from, to }: ExportRange): Promise<string> {
  const blocks: string[] = [];
  let characters = 0;
  const last = Math.min(to, from + MAX_PAGE_HEIGHTS - 1);
  for (let height = from; height <= last && characters < PAGE_CHARACTERS; height += 1) {
    const block = await readWhole(reader, height);
    if (block === undefined) break;
    const lines = blockLines(block).join('');
    blocks.push(lines);
    characters += lines.length;
  }
  return blocks.join('');
}

/** Parses the query of `/export`. Expected errors: ApiError (400, and 404 for a `from` that is not indexed). */
export function exportRange(query: Query, range: IndexedRange): ExportRange {
  const from = heightOf(query, 'from');
  const to = heightOf(query, 'to') ?? Number.MAX_SAFE_INTEGER;
  if (from === undefined) throw invalid('from is required: the height to begin at');
  if (from > to) throw invalid(`from ${from} is above to ${to}`);
  if (rangeWith(from, range) === undefined) throw heightOutside(from, range);
  return { from, to };
}

function heightOf(query: Query, name: 'from' | 'to'): number | undefined {
  const given = list(query[name]);
  const [text] = given;
  if (text === undefined) return undefined;
  const height = parseHeight(text);
  if (height === undefined || given.length > 1) throw invalid(`${name} takes one decimal height`);
  return height;
}

function invalid(message: string): ApiError {
  return new ApiError(400, 'invalid_argument', message);
}

interface WholeBlock extends StoredBlock {
  readonly collections: readonly StoredCollection[];
}

/** `undefined` where the height is outside the range, or was rewound away between the two reads. */
async function readWhole(reader: IndexReader, height: number): Promise<WholeBlock | undefined> {
  const stored = await reader.blockByHeight(height);
  if (stored === undefined) return undefined;
  if (stored.block.collectionIds.length === 0) return { ...stored, collections: [] };
  const collections = await reader.collectionsByHeight(height);
  const isOfBlock = collections?.every(({ blockId }) => blockId === stored.block.id) === true;
  return isOfBlock ? { ...stored, collections } : undefined;
}

function blockLines({ block, transactionCounts, collections }: WholeBlock): string[] {
  const { height, id: block_id, parentId: parent_id } = block;
  const timestamp = rfc3339(decodeBlock(block.encoded).timestamp);
  const ofBlock = block.collectionIds.map((collection_id, index) => ({
    collection_id,
    transaction_count: transactionCounts[index] ?? 0,
  }));
  const transactions = collections.flatMap(({ id: collection_id, encoded }, collection_index) =>
    splitCollection(encoded).map((wire, transaction_index) =>
      lineOf({
        ...({ kind: 'transaction', height, block_id, timestamp } as const),
        ...{ collection_id, collection_index, transaction_index },
        transaction: transactionBody(toIdentifier(transactionId(wire)), wire),
      }),
    ),
  );
  return [
    lineOf({ kind: 'block', height, block_id, parent_id, timestamp, collections: ofBlock }),
    ...transactions,
  ];
}

function lineOf(value: ExportedBlock | ExportedTransaction): string {
  return `${JSON.stringify(value)}\n`;
}
