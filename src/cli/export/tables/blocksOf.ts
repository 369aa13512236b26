import type { ExportedBlock } from '../../../api/index.js';
import { BlockRow } from './BlockRow.js';

const NEWLINE = 0x0a;

/** A block with its lines: its own, then those of its transactions, each with its line end. */
export interface BlockLines {
  readonly block: BlockRow;
  readonly lines: readonly Buffer[];
}

/** The blocks of a page, in order. The lines are views of it. */
export function blocksOf(page: Buffer): BlockLines[] {
  const blocks: BlockLines[] = [];
  for (let at = 0; at < page.length;) {
    const lines: Buffer[] = [];
    const next = (): Buffer => {
      const end = page.indexOf(NEWLINE, at) + 1;
      const line = page.subarray(at, end === 0 ? page.length : end);
      lines.push(line);
      at += line.length;
      return line;
    };
    const block = new BlockRow(JSON.parse(next().toString()) as ExportedBlock);
    for (let left = block.transactions; left > 0; left -= 1) next();
    blocks.push({ block, lines });
  }
  return blocks;
}
