import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';

/** The bytes that every line begins with; the next one tells its kind. */
const KIND_START = '{"kind":"';
const KIND_BYTES = KIND_START.length + 1;
const NEWLINE = 0x0a;
/** A block may guarantee thousands of collections; none comes near this. */
const MAX_BLOCK_LINE_BYTES = 64 * 1024 * 1024;

/** Expected: these bytes are no export of ours. The message completes "is not an export: ". */
export class NotAnExportError extends Error {
  override readonly name = 'NotAnExportError';
}

/** The version of what the lines look like: raised when a reader of older ones would misread them. */
export const EXPORT_FORMAT = 1;

/** What of a closing line is not in the lines above it. */
export interface ExportOrigin {
  /** Name and version of the program whose lines they are. */
  readonly program: string;
  readonly chainId: string;
  /** Where the export was to begin. */
  readonly from: number;
}

/** The last line of an export: what stands before it, and the SHA-256 of exactly those bytes, line ends included. */
export interface ClosingLine {
  readonly kind: 'end';
  readonly format: number;
  readonly program: string;
  readonly chain_id: string;
  readonly from: number;
  /** Below `from` when there is no block. */
  readonly to: number;
  readonly blocks: number;
  readonly collections: number;
  readonly transactions: number;
  readonly bytes: number;
  readonly sha256: string;
}

export interface BlockPlace {
  readonly height: number;
  readonly id: string;
}

/** A block whose transaction lines are not all here yet. */
interface OpenBlock extends BlockPlace {
  readonly collections: number;
  readonly transactions: number;
  left: number;
}

type LineKind = 'block' | 'transaction' | 'end';

/**
 * Reads an export as it grows, in pieces of any size: counts it, hashes it, and knows where its last whole block ends, so
 * that a file which was cut anywhere can be continued. It keeps no more than the line of one block.
 */
export class ExportTally {
  #hash = createHash('sha256');
  /** The hash as it was where the last whole block ended. */
  #wholeHash: Hash = createHash('sha256');
  #bytes = 0;
  #wholeBytes = 0;
  #blocks = 0;
  #collections = 0;
  #transactions = 0;
  #first: number | undefined;
  #last: BlockPlace | undefined;
  #open: OpenBlock | undefined;
  #closing: string | undefined;
  /** Of the line that is not at its end. */
  #kind: LineKind | undefined;
  #pieces: Buffer[] = [];
  #lineBytes = 0;

  /** The first height; `undefined` before any. */
  get first(): number | undefined {
    return this.#first;
  }

  /** The last block that is whole. */
  get last(): BlockPlace | undefined {
    return this.#last;
  }

  get transactions(): number {
    return this.#transactions;
  }

  get blocks(): number {
    return this.#blocks;
  }

  /** Where the last whole block ends. */
  get wholeBytes(): number {
    return this.#wholeBytes;
  }

  /** The closing line as it was found, without its line end. */
  get closing(): string | undefined {
    return this.#closing;
  }

  /** Expected errors: NotAnExportError. */
  add(bytes: Buffer): void {
    let wholeEnd = 0;
    let start = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, start);
      if (end === -1) break;
      this.#extend(bytes.subarray(start, end));
      if (this.#endLine()) wholeEnd = end + 1;
      start = end + 1;
    }
    if (start < bytes.length) this.#extend(bytes.subarray(start));
    this.#hash.update(bytes.subarray(0, wholeEnd));
    if (wholeEnd > 0) {
      this.#wholeHash = this.#hash.copy();
      this.#wholeBytes = this.#bytes + wholeEnd;
    }
    this.#hash.update(bytes.subarray(wholeEnd));
    this.#bytes += bytes.length;
  }

  /** Forgets what stands behind the last whole block: a torn line, a block that was not finished, a closing line. */
  cutToWhole(): void {
    this.#hash = this.#wholeHash.copy();
    this.#bytes = this.#wholeBytes;
    this.#open = undefined;
    this.#closing = undefined;
    this.#beginLine();
  }

  /** What belongs behind the whole blocks, line end included. */
  closingLine({ program, chainId, from }: ExportOrigin): string {
    const line: ClosingLine = {
      kind: 'end',
      format: EXPORT_FORMAT,
      program,
      chain_id: chainId,
      from: this.#first ?? from,
      to: this.#last?.height ?? from - 1,
      blocks: this.#blocks,
      collections: this.#collections,
      transactions: this.#transactions,
      bytes: this.#wholeBytes,
      sha256: this.#wholeHash.copy().digest('hex'),
    };
    return `${JSON.stringify(line)}\n`;
  }

  /** Whether the closing line that was found is that of what was read, whichever version wrote it. */
  isClosedRightly(origin: Omit<ExportOrigin, 'program'>): boolean {
    const expected = JSON.parse(this.closingLine({ ...origin, program: '' })) as object;
    return countsOf(parsedJson(this.#closing ?? '')) === countsOf(expected);
  }

  #extend(piece: Buffer): void {
    if (piece.length === 0) return;
    if (this.#closing !== undefined) throw new NotAnExportError('more follows its closing line');
    this.#lineBytes += piece.length;
    if (this.#kind === 'transaction') return;
    if (this.#lineBytes > MAX_BLOCK_LINE_BYTES) throw new NotAnExportError('a line is too long');
    // The caller may use the buffer again.
    this.#pieces.push(Buffer.from(piece));
    if (this.#kind === undefined && this.#lineBytes >= KIND_BYTES) {
      this.#kind = kindOf(Buffer.concat(this.#pieces));
      if (this.#kind === 'transaction') this.#pieces = [];
    }
  }

  /** True when a block is whole with this line. */
  #endLine(): boolean {
    const kind = this.#kind;
    const text = Buffer.concat(this.#pieces).toString('utf8');
    this.#beginLine();
    switch (kind) {
      case undefined:
        throw new NotAnExportError('it has other lines than an export');
      case 'block':
        return this.#beginBlock(text);
      case 'transaction':
        return this.#countTransaction();
      case 'end':
        if (this.#open !== undefined) throw new NotAnExportError('it ends within a block');
        this.#closing = text;
        return false;
    }
  }

  #beginLine(): void {
    this.#kind = undefined;
    this.#pieces = [];
    this.#lineBytes = 0;
  }

  #beginBlock(text: string): boolean {
    if (this.#open !== undefined) {
      throw new NotAnExportError(`height ${this.#open.height} lacks ${this.#open.left} lines`);
    }
    const open = openBlockOf(text);
    if (this.#last !== undefined && open.height !== this.#last.height + 1) {
      throw new NotAnExportError(`height ${open.height} follows height ${this.#last.height}`);
    }
    this.#open = open;
    return this.#endBlock();
  }

  #countTransaction(): boolean {
    if (this.#open === undefined) throw new NotAnExportError('a transaction stands outside its block');
    this.#open.left -= 1;
    return this.#endBlock();
  }

  #endBlock(): boolean {
    if (this.#open?.left !== 0) return false;
    const { height, id, collections, transactions } = this.#open;
    this.#open = undefined;
    this.#first ??= height;
    this.#last = { height, id };
    this.#blocks += 1;
    this.#collections += collections;
    this.#transactions += transactions;
    return true;
  }
}

/** The place and the parent of the block that these lines begin with. Expected errors: NotAnExportError. */
export function firstBlockOf(lines: Buffer): BlockPlace & { readonly parentId: string } {
  const end = lines.indexOf(NEWLINE);
  const { height, block_id: id, parent_id: parentId } = blockLineOf(lines.toString('utf8', 0, end));
  return { height, id, parentId };
}

/** A closing line without what tells of its writer. */
function countsOf(line: unknown): string | undefined {
  if (typeof line !== 'object' || line === null) return undefined;
  const { format: _format, program: _program, ...counts } = line as Partial<ClosingLine>;
  return JSON.stringify(counts);
}

function kindOf(start: Buffer): LineKind {
  if (start.toString('latin1', 0, KIND_START.length) === KIND_START) {
    switch (start.toString('latin1', KIND_START.length, KIND_BYTES)) {
      case 'b':
        return 'block';
      case 't':
        return 'transaction';
      case 'e':
        return 'end';
    }
  }
  throw new NotAnExportError('it has other lines than an export');
}

function openBlockOf(text: string): OpenBlock {
  const { height, block_id: id, collections } = blockLineOf(text);
  const transactions = collections.reduce((sum, { transaction_count: count }) => sum + count, 0);
  return { height, id, collections: collections.length, transactions, left: transactions };
}

interface BlockLine {
  readonly height: number;
  readonly block_id: string;
  readonly parent_id: string;
  readonly collections: readonly { readonly transaction_count: number }[];
}

function blockLineOf(text: string): BlockLine {
  const parsed = parsedJson(text);
  if (!isBlockLine(parsed)) throw new NotAnExportError('the line of a block cannot be read');
  return parsed;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isBlockLine(value: unknown): value is BlockLine {
  if (typeof value !== 'object' || value === null) return false;
  const { height, block_id, parent_id, collections } = value as Partial<Record<keyof BlockLine, unknown>>;
  return (
    Number.isSafeInteger(height) &&
    typeof block_id === 'string' &&
    typeof parent_id === 'string' &&
    Array.isArray(collections) &&
    collections.every(isCounted)
  );
}

function isCounted(collection: unknown): boolean {
  if (typeof collection !== 'object' || collection === null || !('transaction_count' in collection))
    return false;
  return Number.isSafeInteger(collection.transaction_count) && Number(collection.transaction_count) >= 0;
}
