import { LENGTH_DELIMITED, VARINT, WireReader } from './WireReader.js';

const NO_BYTES = Buffer.alloc(0);

/**
 * The numbers and bytes of a message, by field, which is all that requests consist of. The last of a repeated field
 * counts, absent fields are empty or zero, and nested messages are bytes.
 */
export class RequestFields {
  readonly #bytes = new Map<number, Buffer>();
  readonly #numbers = new Map<number, bigint>();

  /** Keeps views of `message`, which must be small: every field is read. Expected errors: `WireError`. */
  constructor(message: Uint8Array) {
    const reader = new WireReader(message);
    while (reader.next()) {
      if (reader.wireType === LENGTH_DELIMITED) this.#bytes.set(reader.field, reader.view());
      else if (reader.wireType === VARINT) this.#numbers.set(reader.field, reader.uint64());
      else reader.skip();
    }
  }

  /** True where the field was sent, even if empty. */
  has(field: number): boolean {
    return this.#bytes.has(field) || this.#numbers.has(field);
  }

  bytes(field: number): Buffer {
    return this.#bytes.get(field) ?? NO_BYTES;
  }

  text(field: number): string {
    return this.bytes(field).toString('utf8');
  }

  /** A `uint64`. */
  number(field: number): bigint {
    return this.#numbers.get(field) ?? 0n;
  }

  flag(field: number): boolean {
    return this.number(field) !== 0n;
  }
}
