import { hash } from 'node:crypto';
import type { ExportedTransaction } from '../../../api/index.js';
import type { BlockRow } from './BlockRow.js';
import type { SignatureCell } from './column.js';

/** A transaction at its place. What is costly is worked out when a column first asks for it. */
export class TransactionRow {
  readonly block: BlockRow;
  readonly line: ExportedTransaction;
  #script: Buffer | undefined;
  #scriptText: string | null | undefined;
  #argumentTexts: readonly string[] | null | undefined;

  constructor(block: BlockRow, line: ExportedTransaction) {
    this.block = block;
    this.line = line;
  }

  get script(): Buffer {
    return (this.#script ??= fromBase64(this.line.transaction.script));
  }

  /** Null where the script is no text. */
  get scriptText(): string | null {
    return (this.#scriptText ??= textOf(this.script));
  }

  get scriptSha256(): string {
    return hash('sha256', this.script, 'hex');
  }

  get arguments(): Buffer[] {
    return this.line.transaction.arguments.map(fromBase64);
  }

  /** Null where one of them is no text. */
  get argumentTexts(): readonly string[] | null {
    return (this.#argumentTexts ??= textsOf(this.arguments));
  }
}

type Signature = ExportedTransaction['transaction']['payload_signatures'][number];

export function signatureCell({ address, key_index, signature, extension_data }: Signature): SignatureCell {
  return {
    ...{ address, key_index: Number(key_index), signature: fromBase64(signature) },
    extension_data: extension_data === undefined ? null : fromBase64(extension_data),
  };
}

function fromBase64(text: string): Buffer {
  return Buffer.from(text, 'base64');
}

/** Null where bytes are no UTF-8, or hold a zero byte, which databases and readers of CSV do not take in a text. */
function textOf(bytes: Buffer): string | null {
  const text = bytes.toString('utf8');
  // What is no UTF-8 decodes to U+FFFD, and hardly any script has one.
  if (text.includes('\uFFFD') && !Buffer.from(text, 'utf8').equals(bytes)) return null;
  return bytes.includes(0) ? null : text;
}

function textsOf(all: readonly Buffer[]): readonly string[] | null {
  const texts = all.map(textOf);
  return texts.every((text) => text !== null) ? texts : null;
}
