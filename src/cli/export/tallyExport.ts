import { createHash } from 'node:crypto';
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
function blockLineOf(line: Buffer): BlockLine {
  const { height, block_id: id, parent_id: parentId, collections } = objectOf(line.toString());
  const counts: readonly unknown[] = Array.isArray(collections)
    ? collections.map((each) => (Object(each) as { readonly transaction_count?: unknown }).transaction_count)
    : [NaN];
  const transactions = counts.every(isCount) ? counts.reduce((sum, count) => sum + count, 0) : NaN;
  if (!isCount(height) || !isCount(transactions) || typeof id !== 'string' || typeof parentId !== 'string') {
    throw new NotAnExportError('the line of a block cannot be read');
  }
  return { height, id, parentId, collections: counts.length, transactions };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** The parsed line; empty if it is not JSON. */
function objectOf(line: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(line)) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

/** Version of the line format: raised when an older reader would misread the lines. */
const FORMAT = 1;
/** Every line begins like this; the next letter is its kind. */
const LINE_START = '{"kind":"';
/** Limits memory when a file is not an export; JSON cannot be longer than this. */
const MAX_LINE_BYTES = 512 * 1024 * 1024;

/** What the closing line adds to the lines above it. */
export interface ExportOrigin {
  /** Name and version of the program that made the lines. */
  readonly program: string;
  readonly chainId: string;
  /** The height the export was asked to begin at. */
  readonly from: number;
}

/** The whole blocks of an export. */
interface WholeBlocks {
  readonly first?: BlockLine;
  readonly last?: BlockLine;
  readonly blocks: number;
  readonly collections: number;
  readonly transactions: number;
  readonly bytes: number;
}

/** What follows the last whole block. */
interface Rest {
  block?: BlockLine;
  /** The whole lines of that block so far. */
  readonly lines: Buffer[];
  readonly torn: Buffer[];
  closing?: string;
}

export type ExportTally = ReturnType<typeof tallyExport>;

/**
 * Reads an export in pieces of any size. It counts and hashes whole blocks only, so a file that was cut anywhere
 * can be resumed after its last whole block. It holds at most one block.
 */
export function tallyExport() {
  const sha256 = createHash('sha256');
  let whole: WholeBlocks = { blocks: 0, collections: 0, transactions: 0, bytes: 0 };
  let rest: Rest = { lines: [], torn: [] };
  const isClosed = (): boolean => rest.closing !== undefined;

  /** Keeps `bytes`: do not reuse the buffer. Expected errors: NotAnExportError. */
  const add = (bytes: Buffer): void => {
    let torn = bytes;
    if (bytes.includes(NEWLINE)) {
      torn = Buffer.concat([...rest.torn.splice(0), bytes]);
      for (let end; (end = torn.indexOf(NEWLINE) + 1) > 0; torn = torn.subarray(end)) {
        addLine(torn.subarray(0, end));
      }
    }
    if (torn.length > 0) rest.torn.push(torn);
    const [begun] = rest.torn;
    if (begun === undefined) return;
    const start = begun.toString('latin1', 0, LINE_START.length);
    refuseIf(isClosed(), 'more follows its closing line');
    refuseIf(!LINE_START.startsWith(start), 'it has other lines than an export');
    refuseIf(sizeOf(rest.torn) > MAX_LINE_BYTES, 'a line is too long');
  };

  /** Drops what follows the last whole block: a torn line, an unfinished block, a closing line. */
  const cutToWhole = (): void => {
    rest = { lines: [], torn: [] };
  };

  /** The line to write after the whole blocks, newline included. `to` is below `from` when there is no block. */
  const closingLine = ({ program, chainId, from }: ExportOrigin): string => {
    const { first, last, blocks, collections, transactions, bytes } = whole;
    const line = {
      kind: 'end',
      format: FORMAT,
      program,
      chain_id: chainId,
      from: first?.height ?? from,
      to: last?.height ?? from - 1,
      blocks,
      collections,
      transactions,
      bytes,
      sha256: sha256.copy().digest('hex'),
    };
    return `${JSON.stringify(line)}\n`;
  };

  /** Whether the closing line matches the lines above it, whichever version wrote it. */
  const isClosedRightly = (origin: Pick<ExportOrigin, 'chainId' | 'from'>): boolean => {
    const countsOf = (line: string): string =>
      JSON.stringify({ ...objectOf(line), format: undefined, program: undefined });
    return countsOf(rest.closing ?? '') === countsOf(closingLine({ ...origin, program: '' }));
  };

  const addLine = (line: Buffer): void => {
    const { block, lines } = rest;
    const { last } = whole;
    const missing = block === undefined ? 0 : 1 + block.transactions - lines.length;
    refuseIf(isClosed(), 'more follows its closing line');
    switch (line.toString('latin1', 0, LINE_START.length + 1)) {
      case `${LINE_START}b`: {
        const next = blockLineOf(line);
        refuseIf(missing > 0, `height ${block?.height} lacks ${missing} lines`);
        const isNext = last === undefined || next.height === last.height + 1;
        refuseIf(!isNext, `height ${next.height} follows height ${last?.height}`);
        rest.block = next;
        break;
      }
      case `${LINE_START}t`:
        refuseIf(missing === 0, 'a transaction is outside its block');
        break;
      case `${LINE_START}e`:
        refuseIf(missing > 0, 'it ends within a block');
        rest.closing = line.toString();
        return;
      default:
        refuseIf(true, 'it has other lines than an export');
    }
    lines.push(line);
    endBlock();
  };

  /** Counts the block once all its lines are there. */
  const endBlock = (): void => {
    const { block, lines } = rest;
    if (block === undefined || lines.length <= block.transactions) return;
    for (const line of lines) sha256.update(line);
    const { first = block, blocks, collections, transactions, bytes } = whole;
    whole = {
      first,
      last: block,
      blocks: blocks + 1,
      collections: collections + block.collections,
      transactions: transactions + block.transactions,
      bytes: bytes + sizeOf(lines),
    };
    cutToWhole();
  };

  return { whole: (): WholeBlocks => whole, isClosed, add, cutToWhole, closingLine, isClosedRightly };
}

function sizeOf(pieces: readonly Buffer[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}

function refuseIf(isWrong: boolean, why: string): void {
  if (isWrong) throw new NotAnExportError(why);
}
