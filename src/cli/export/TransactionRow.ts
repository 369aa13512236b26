import { hash } from 'node:crypto';
import { asBuffer, decodeTransaction, NO_TIME, timeOfBlock, transactionAt } from '../../flow/index.js';
import type { Timestamp, Transaction, VerifiedCollection } from '../../flow/index.js';
import type { BlockEntry } from '../../storage/index.js';

export interface BlockRow extends BlockEntry {
  readonly time: Time;
  readonly rows: readonly CollectionRow[];
  readonly transactions: number;
}

/** A collection of a block, by its place. */
export interface CollectionRow {
  readonly of: BlockRow;
  readonly index: number;
  readonly transactions: number;
  readonly verified: VerifiedCollection;
}

export function blockRow(entry: BlockEntry): BlockRow {
  const rows: CollectionRow[] = [];
  const transactions = transactionsIn(entry);
  const row = { ...entry, time: timeOf(timeOfBlock(entry.block.encoded)), rows, transactions };
  for (const [index, verified] of entry.collections.entries())
    rows.push({ of: row, index, transactions: verified.ranges.length / 2, verified });
  return row;
}

export function transactionsIn({ collections }: BlockEntry): number {
  return collections.reduce((sum, { ranges }) => sum + ranges.length / 2, 0);
}

/** Makes a value for each key, and caches at most `most` of them. */
export function remembering<T>(most: number, make: (key: string) => T): (key: string) => T {
  const known = new Map<string, T>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found;
    const made = make(key);
    if (known.size >= most) known.clear();
    known.set(key, made);
    return made;
  };
}

/** Most transactions run one of a few scripts. Memory use is about this times the length of a script. */
const MAX_SCRIPTS = 1_000;

/** A script in the forms that columns need, by its bytes as characters. `text`: null if it is not text. */
export function rememberScripts() {
  return remembering(MAX_SCRIPTS, (characters) => {
    const bytes = Buffer.from(characters, 'latin1');
    return { bytes, text: textOf(bytes), sha256: hash('sha256', bytes, 'hex') } as const;
  });
}
type ScriptOf = ReturnType<typeof rememberScripts>;

/** A transaction at its place. Costly values are computed when a column first needs them. */
export class TransactionRow {
  readonly collection: CollectionRow;
  readonly index: number;
  readonly id: string;
  /** Valid as long as the row: a view of its collection. */
  readonly wire: Buffer;
  readonly #scriptOf: ScriptOf;
  #transaction: Transaction | undefined;
  #script: ReturnType<ScriptOf> | undefined;
  #argumentTexts: readonly string[] | null | undefined;

  constructor(collection: CollectionRow, index: number, scriptOf: ScriptOf) {
    this.collection = collection;
    this.index = index;
    const { id, wire } = transactionAt(collection.verified, index);
    this.id = id;
    this.wire = wire;
    this.#scriptOf = scriptOf;
  }

  get transaction(): Transaction {
    return (this.#transaction ??= decodeTransaction(this.wire));
  }

  get script(): ReturnType<ScriptOf> {
    return (this.#script ??= this.#scriptOf(asBuffer(this.transaction.script).toString('latin1')));
  }

  /** Null if one of them is not text. */
  get argumentTexts(): readonly string[] | null {
    if (this.#argumentTexts === undefined) {
      const texts = this.transaction.arguments.map(textOf);
      this.#argumentTexts = texts.every((text) => text !== null) ? texts : null;
    }
    return this.#argumentTexts;
  }
}

/** Null if the bytes are not UTF-8, or contain a zero byte, which databases and CSV readers do not accept in text. */
function textOf(bytes: Uint8Array): string | null {
  const buffer = asBuffer(bytes);
  const text = buffer.toString('utf8');
  // Invalid UTF-8 decodes to U+FFFD, which hardly any script contains.
  if (text.includes('\uFFFD') && !Buffer.from(text, 'utf8').equals(buffer)) return null;
  return text.includes('\0') ? null : text;
}

/** A moment, split into microseconds, which is the precision of databases, and the remaining nanoseconds. */
export type Time = ReturnType<typeof timeOf>;

const SECONDS_LENGTH = 'YYYY-MM-DDTHH:MM:SS'.length;

function timeOf({ seconds, nanos }: Timestamp = NO_TIME) {
  const micros = Math.floor(nanos / 1_000);
  const whole = new Date(Number(seconds) * 1_000).toISOString().slice(0, SECONDS_LENGTH);
  return {
    /** Since the Unix epoch. */
    microseconds: seconds * 1_000_000n + BigInt(micros),
    /** 0 to 999. */
    nanoseconds: nanos % 1_000,
    /** RFC 3339 in UTC, always with six digits of a second. */
    text: `${whole}.${String(micros).padStart(6, '0')}Z`,
  } as const;
}
