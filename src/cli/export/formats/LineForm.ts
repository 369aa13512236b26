import { exportedBlock, exportedTransaction, lineOf } from '../../../api/index.js';
import type { BlockRow } from '../tables/BlockRow.js';
import { ScriptMemory, TransactionRow } from '../tables/TransactionRow.js';
import type { PartitionForm } from './PartitionForm.js';
import type { Wanted } from './TableForm.js';
import { TextFile } from './TextFile.js';

export const LINES = 'lines';

export interface LineOptions {
  /** `undefined`: all transactions, and the lines of blocks too. */
  readonly wanted: Wanted | undefined;
  readonly scripts: boolean;
}

/** The lines of `export`, with or without scripts, of all or some transactions. */
export class LineForm implements PartitionForm {
  readonly files: readonly TextFile[];
  readonly #file = new TextFile(LINES);
  readonly #options: LineOptions;
  readonly #scripts = new ScriptMemory();

  constructor(options: LineOptions) {
    this.#options = options;
    this.files = [this.#file];
  }

  add({ entry, collections }: BlockRow): void {
    const { wanted, scripts } = this.#options;
    const block = exportedBlock(entry);
    if (wanted === undefined) this.#file.addText(lineOf(block));
    for (const row of collections) {
      for (let index = 0; index < row.transactions; index += 1) {
        if (wanted?.(new TransactionRow(row, index, this.#scripts)) === false) continue;
        const line = exportedTransaction(entry, block, { collection: row.index, index });
        this.#file.addText(scripts ? lineOf(line) : withoutScript(line));
      }
    }
  }
}

function withoutScript(line: ReturnType<typeof exportedTransaction>): string {
  const transaction = { ...line.transaction, script: undefined };
  return `${JSON.stringify({ ...line, transaction })}\n`;
}
