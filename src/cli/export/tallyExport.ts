import { createHash } from 'node:crypto';
import { fieldsOf, jsonIn, OperatorError } from '../../runtime/index.js';
import { madeBy } from './exportSource.js';

/** Version of the line format: raised when an older reader would misread the lines. */
const FORMAT = 1;

interface CountedBlock {
  readonly height: number;
  readonly id: string;
  readonly collections: number;
  readonly transactions: number;
}

export type ExportTally = ReturnType<typeof tallyExport>;

export function tallyExport() {
  const sha256 = createHash('sha256');
  const sums = { blocks: 0, collections: 0, transactions: 0, bytes: 0 };
  let first: CountedBlock | undefined;
  let last: CountedBlock | undefined;
  return {
    first: () => first,
    last: () => last,
    sums: (): Readonly<typeof sums> => sums,
    /** `lines`: those of the block. */
    add: (block: CountedBlock, lines: readonly Uint8Array[]): void => {
      first ??= block;
      last = block;
      sums.blocks += 1;
      sums.collections += block.collections;
      sums.transactions += block.transactions;
      for (const line of lines) {
        sha256.update(line);
        sums.bytes += line.length;
      }
    },
    /** The line to write after the whole blocks, newline included. `to` is below `from` when there is no block. */
    closingLine: (chainId: string, from: number): string => {
      const of = { kind: 'end', format: FORMAT, program: madeBy, chain_id: chainId };
      const heights = { from: first?.height ?? from, to: last?.height ?? from - 1 };
      return `${JSON.stringify({ ...of, ...heights, ...sums, sha256: sha256.copy().digest('hex') })}\n`;
    },
  };
}

/** Whether two closing lines agree on the lines above, regardless of the versions that wrote them. */
export function closeTheSame(one: string, other: string): boolean {
  const said = (line: string) =>
    JSON.stringify({ ...fieldsOf(jsonIn(line)), format: undefined, program: undefined });
  return said(one) === said(other);
}

const NEWLINE = 0x0a;
/** Every line begins like this; the next letter is its kind. */
const LINE_START = '{"kind":"';
/** Limits memory when a file is not an export; JSON cannot be longer than this. */
const MAX_LINE_BYTES = 512 * 1024 * 1024;

/**
 * Reads an export in pieces of any size, and tallies its whole blocks: a file that was cut anywhere can be resumed after the last
 * of them. It holds at most one block. Expected errors: OperatorError `usage` when the file is something else.
 */
export function readExport(name: string, tally: ExportTally) {
  /** The block that is not whole yet, and its lines so far. */
  let block: CountedBlock | undefined;
  let lines: Buffer[] = [];
  /** The beginning of a line that is not complete yet. */
  let torn: Buffer = Buffer.alloc(0);
  let closing: string | undefined;
  const refuseIf = (isWrong: boolean, why: string): void => {
    if (!isWrong) return;
    const message = `The file ${name} cannot be resumed, because it is not an export: ${why}. Choose another one.`;
    throw new OperatorError('usage', message);
  };

  const addLine = (line: Buffer): void => {
    const missing = block === undefined ? 0 : 1 + block.transactions - lines.length;
    refuseIf(closing !== undefined, 'more follows its closing line');
    switch (line.toString('latin1', 0, LINE_START.length + 1)) {
      case `${LINE_START}b`: {
        refuseIf(missing > 0, `height ${block?.height} lacks ${missing} lines`);
        const before = tally.last()?.height;
        block = blockIn(line);
        refuseIf(block === undefined, 'the line of a block cannot be read');
        const isNext = before === undefined || block?.height === before + 1;
        refuseIf(!isNext, `height ${block?.height} follows height ${before}`);
        break;
      }
      case `${LINE_START}t`:
        refuseIf(missing === 0, 'a transaction is outside its block');
        break;
      case `${LINE_START}e`:
        refuseIf(missing > 0, 'it ends within a block');
        closing = line.toString();
        return;
      default:
        refuseIf(true, 'it has other lines than an export');
    }
    lines.push(line);
    if (block === undefined || lines.length <= block.transactions) return;
    tally.add(block, lines);
    block = undefined;
    lines = [];
  };

  return {
    /** The closing line, if there is one. */
    closing: (): string | undefined => closing,
    /** Keeps `bytes`: do not reuse the buffer. */
    add: (bytes: Buffer): void => {
      torn = Buffer.concat([torn, bytes]);
      for (let end; (end = torn.indexOf(NEWLINE) + 1) > 0; torn = torn.subarray(end))
        addLine(torn.subarray(0, end));
      refuseIf(closing !== undefined && torn.length > 0, 'more follows its closing line');
      const start = torn.toString('latin1', 0, LINE_START.length);
      refuseIf(!LINE_START.startsWith(start), 'it has other lines than an export');
      refuseIf(torn.length > MAX_LINE_BYTES, 'a line is too long');
    },
  };
}

/** What the line of a block says; `undefined` if it cannot be read. */
function blockIn(line: Buffer): CountedBlock | undefined {
  const { height, block_id: id, collections } = fieldsOf(jsonIn(line.toString()));
  if (!isCount(height) || typeof id !== 'string' || !Array.isArray(collections)) return undefined;
  let transactions = 0;
  for (const each of collections) {
    const { transaction_count: count } = fieldsOf(each);
    if (!isCount(count)) return undefined;
    transactions += count;
  }
  return { height, id, collections: collections.length, transactions };
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
