import { LENGTH_DELIMITED, MAX_FIELDS, VARINT, WireReader } from './WireReader.js';
import { WireError } from '../WireError.js';

const NO_BYTES = Buffer.alloc(0);
const NONE: readonly Buffer[] = [];

/**
 * The numbers and bytes of a message, by field, as any protobuf reader takes them: fields in any order, the last of a
 * repeated singular field counts, absent fields are empty or zero, unknown ones are skipped, and nested messages are bytes.
 * For requests, rare answers, and readers of stored data; indexing has its own scans.
 */
export class RequestFields {
  readonly #bytes: (Buffer[] | undefined)[] = [];
  readonly #numbers: (bigint | undefined)[] = [];

  /**
   * Keeps views of a message, or of all parts of one: every field is read. Expected errors: `WireError`, also for more fields
   * than `most`.
   */
  constructor(message: Uint8Array | readonly Uint8Array[], most = MAX_FIELDS) {
    let room = most;
    for (const part of message instanceof Uint8Array ? [message] : message) {
      const reader = new WireReader(part, room);
      while (reader.next()) {
        const { field } = reader;
        if (reader.wireType === LENGTH_DELIMITED) (this.#bytes[field] ??= []).push(reader.view());
        else if (reader.wireType === VARINT) this.#numbers[field] = reader.uint64();
        else reader.skip();
      }
      room = reader.room;
    }
  }

  /** True where the field was sent, even if empty. */
  has(field: number): boolean {
    return this.#bytes[field] !== undefined || this.#numbers[field] !== undefined;
  }

  bytes(field: number): Buffer {
    return this.#bytes[field]?.at(-1) ?? NO_BYTES;
  }

  /** Every value of a repeated field. */
  all(field: number): readonly Buffer[] {
    return this.#bytes[field] ?? NONE;
  }

  text(field: number): string {
    return this.bytes(field).toString('utf8');
  }

  /** A singular message, merged from all its occurrences; `undefined` where there is none. */
  message(field: number): RequestFields | undefined {
    const all = this.all(field);
    return all.length === 0 ? undefined : new RequestFields(all);
  }

  /** A `uint64`. */
  number(field: number): bigint {
    return this.#numbers[field] ?? 0n;
  }

  /** A `uint32`: bits above the 32nd are dropped, as in every protobuf reader. */
  uint32(field: number): number {
    return Number(BigInt.asUintN(32, this.number(field)));
  }

  /** A `uint64` that must be a safe integer. Expected errors: `WireError`. */
  safeInteger(field: number, name = 'height'): number {
    const value = Number(this.number(field));
    if (!Number.isSafeInteger(value)) throw new WireError(`a ${name} is not a safe integer`);
    return value;
  }

  flag(field: number): boolean {
    return this.number(field) !== 0n;
  }
}
