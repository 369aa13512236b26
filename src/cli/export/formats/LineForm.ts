import type { ExportedTransaction } from '../../../api/index.js';
import type { BlockRow } from '../tables/BlockRow.js';
import { ScriptMemory, TransactionRow } from '../tables/TransactionRow.js';
import { PIECE_BYTES } from './PartitionForm.js';
import type { GrowingFile, PartitionForm } from './PartitionForm.js';
import type { Wanted } from './TableForm.js';

export const LINES = 'lines';

export interface LineOptions {
  /** None: all of them, and the lines of blocks too. */
  readonly wanted: Wanted | undefined;
  readonly scripts: boolean;
}

/** The lines of `export`, as they come or with something left out. */
export class LineForm implements PartitionForm, GrowingFile {
  readonly table = LINES;
  readonly files = [this];
  rows = 0;
  readonly #options: LineOptions;
  readonly #scripts = new ScriptMemory();
  #lines: Buffer[] = [];
  #bytes = 0;

  constructor(options: LineOptions) {
    this.#options = options;
  }

  add(block: BlockRow, lines: readonly Buffer[]): void {
    const { wanted, scripts } = this.#options;
    if (wanted === undefined && scripts) {
      for (const line of lines) this.#put(line);
      return;
    }
    const [first, ...rest] = lines;
    if (wanted === undefined && first !== undefined) this.#put(first);
    for (const line of rest) {
      const parsed = JSON.parse(line.toString()) as ExportedTransaction;
      if (wanted?.(new TransactionRow(block, parsed, this.#scripts)) !== false)
        this.#put(scripts ? line : withoutScript(parsed));
    }
  }

  take(): Uint8Array | undefined {
    return this.#bytes < PIECE_BYTES ? undefined : this.finish();
  }

  finish(): Uint8Array {
    const bytes = Buffer.concat(this.#lines);
    this.#lines = [];
    this.#bytes = 0;
    return bytes;
  }

  #put(line: Buffer): void {
    this.#lines.push(line);
    this.#bytes += line.length;
    this.rows += 1;
  }
}

function withoutScript(line: ExportedTransaction): Buffer {
  const transaction = { ...line.transaction, script: undefined };
  return Buffer.from(`${JSON.stringify({ ...line, transaction })}\n`);
}
