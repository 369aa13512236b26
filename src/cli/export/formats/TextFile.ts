import { PIECE_BYTES } from './PartitionForm.js';
import type { GrowingFile } from './PartitionForm.js';

/** A file of text, a row at a time. */
export class TextFile implements GrowingFile {
  readonly table: string;
  rows = 0;
  #pieces: string[] = [];
  #characters = 0;

  constructor(table: string, head = '') {
    this.table = table;
    this.#pieces.push(head);
  }

  addText(text: string): void {
    this.#pieces.push(text);
    this.#characters += text.length;
    this.rows += 1;
  }

  take(): Uint8Array | undefined {
    return this.#characters < PIECE_BYTES ? undefined : this.finish();
  }

  finish(): Uint8Array {
    const text = this.#pieces.join('');
    this.#pieces = [];
    this.#characters = 0;
    return Buffer.from(text);
  }
}
