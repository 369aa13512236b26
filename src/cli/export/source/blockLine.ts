import { NotAnExportError } from './NotAnExportError.js';

const NEWLINE = 0x0a;

/** What we read from a block's line. */
export interface BlockLine {
  readonly height: number;
  readonly id: string;
  readonly parentId: string;
  readonly collections: number;
  readonly transactions: number;
}

/** The first block in whole lines. Expected errors: NotAnExportError. */
export function firstBlockOf(lines: Buffer): BlockLine {
  return blockLineOf(lines.subarray(0, lines.indexOf(NEWLINE)));
}

/** Expected errors: NotAnExportError. */
export function blockLineOf(line: Buffer): BlockLine {
  const { height, block_id: id, parent_id: parentId, collections } = objectOf(line.toString());
  const counts = Array.isArray(collections) ? collections.map(countOf) : [NaN];
  const transactions = counts.reduce((sum, count) => sum + count, 0);
  if (!isCount(height) || !isCount(transactions) || typeof id !== 'string' || typeof parentId !== 'string') {
    throw new NotAnExportError('the line of a block cannot be read');
  }
  return { height, id, parentId, collections: counts.length, transactions };
}

/** NaN where there is none, which makes the sum NaN. */
function countOf(collection: unknown): number {
  const { transaction_count: count } = Object(collection) as Readonly<Record<string, unknown>>;
  return isCount(count) ? count : NaN;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** The parsed line; empty if it is not JSON. */
export function objectOf(line: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(line)) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}
