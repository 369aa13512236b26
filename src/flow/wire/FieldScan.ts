import { LENGTH_DELIMITED, MAX_FIELDS, VARINT, WireReader } from './WireReader.js';
import { WireError } from '../WireError.js';

const TWO_POW_32 = 0x1_0000_0000;

/** Where a field stands in the bytes. An absent field has length 0. */
export interface Span {
  readonly start: number;
  readonly length: number;
}

export const ABSENT_SPAN: Span = { start: 0, length: 0 };
const NONE: readonly Span[] = [];

/** Finds the fields of messages by their place in the bytes. Expected errors: `WireError`. */
export class FieldScan {
  readonly #reader: WireReader;

  constructor(bytes: Uint8Array) {
    this.#reader = new WireReader(bytes, MAX_FIELDS);
  }

  get bytes(): Buffer {
    return this.#reader.bytes;
  }

  /** The fields up to `last`, all singular except those in the bit set `repeated`. Other fields are skipped. */
  fields(message: Span, last: number, repeated = 0): Fields {
    const reader = this.#enter(message);
    const fields = new Fields(last);
    while (reader.next()) {
      const { field, wireType } = reader;
      if (field > last || (wireType !== LENGTH_DELIMITED && wireType !== VARINT)) {
        reader.skip();
        continue;
      }
      if (wireType === VARINT) {
        reader.varint();
        fields.setNumber(field, reader.high * TWO_POW_32 + (reader.low >>> 0));
      } else {
        const length = reader.length();
        fields.addSpan(field, { start: reader.position, length }, (repeated & (1 << field)) !== 0);
        reader.position += length;
      }
    }
    return fields;
  }

  /** Views, one after the other. */
  views(packed: Span): number[] {
    const reader = this.#enter(packed);
    const views: number[] = [];
    while (reader.position < reader.end) {
      reader.count();
      views.push(reader.safeInteger('view'));
    }
    return views;
  }

  #enter({ start, length }: Span): WireReader {
    this.#reader.position = start;
    this.#reader.end = start + length;
    return this.#reader;
  }
}

/** The fields of one message, by number. */
class Fields {
  readonly #spans: (Span | undefined)[];
  /** Allocated when needed: most messages have fields of one kind only. */
  #lists: (Span[] | undefined)[] | undefined;
  #numbers: number[] | undefined;

  constructor(last: number) {
    this.#spans = new Array<Span | undefined>(last + 1);
  }

  addSpan(field: number, span: Span, isRepeated: boolean): void {
    if (isRepeated) {
      this.#lists ??= [];
      (this.#lists[field] ??= []).push(span);
      return;
    }
    if (this.#spans[field] !== undefined) throw new WireError(`a message has the field ${field} twice`);
    this.#spans[field] = span;
  }

  setNumber(field: number, value: number): void {
    this.#numbers ??= [];
    if (this.#numbers[field] !== undefined) throw new WireError(`a message has the field ${field} twice`);
    this.#numbers[field] = value;
  }

  has(field: number): boolean {
    return this.#spans[field] !== undefined;
  }

  span(field: number): Span {
    return this.#spans[field] ?? ABSENT_SPAN;
  }

  list(field: number): readonly Span[] {
    return this.#lists?.[field] ?? NONE;
  }

  /** A height or view. */
  number(field: number): number {
    const value = this.signed(field);
    if (value < 0 || !Number.isSafeInteger(value))
      throw new WireError('a height or view is not a safe integer');
    return value;
  }

  signed(field: number): number {
    return this.#numbers?.[field] ?? 0;
  }
}
