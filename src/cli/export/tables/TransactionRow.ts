import { hash } from 'node:crypto';
import type { ExportedTransaction } from '../../../api/index.js';
import type { BlockRow } from './BlockRow.js';
import type { SignatureCell } from './column.js';

/** A script in the forms that columns want. */
interface Script {
  readonly bytes: Buffer;
  /** Null where it is no text. */
  readonly text: string | null;
  readonly sha256: string;
}

/** Most transactions run one of a few scripts. Rough bound of what is kept: this, times the length of a script. */
const MAX_SCRIPTS = 1_000;

/** The scripts met last, by what lines say of them. */
export class ScriptMemory {
  readonly #scripts = new Map<string, Script>();

  of(encoded: string): Script {
    const known = this.#scripts.get(encoded);
    if (known !== undefined) return known;
    const bytes = fromBase64(encoded);
    const script = { bytes, text: textOf(bytes), sha256: hash('sha256', bytes, 'hex') };
    if (this.#scripts.size >= MAX_SCRIPTS) this.#scripts.clear();
    this.#scripts.set(encoded, script);
    return script;
  }
}

/** A transaction at its place. What is costly is worked out when a column first asks for it. */
export class TransactionRow {
  readonly block: BlockRow;
  readonly line: ExportedTransaction;
  readonly #scripts: ScriptMemory;
  #script: Script | undefined;
  #arguments: readonly Buffer[] | undefined;
  #argumentTexts: readonly string[] | null | undefined;

  constructor(block: BlockRow, line: ExportedTransaction, scripts: ScriptMemory) {
    this.block = block;
    this.line = line;
    this.#scripts = scripts;
  }

  get script(): Script {
    return (this.#script ??= this.#scripts.of(this.line.transaction.script));
  }

  get arguments(): readonly Buffer[] {
    return (this.#arguments ??= this.line.transaction.arguments.map(fromBase64));
  }

  /** Null where one of them is no text. */
  get argumentTexts(): readonly string[] | null {
    return this.#argumentTexts === undefined
      ? (this.#argumentTexts = textsOf(this.arguments))
      : this.#argumentTexts;
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
