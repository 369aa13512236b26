import { checkTimestamp, decodeBlock, encodeBlock } from './block.js';
import { WireError } from '../WireError.js';
import { IDENTIFIER_BYTES } from '../ids/identifiers.js';
import type { FinalizedBlock, Identifier } from '../types.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';

/** The largest light form kept. A guarantee takes some 300 bytes, and a block has a few dozen at most. */
const MAX_BLOCK_BYTES = 4 * 1024 * 1024;
const TWO_POW_32 = 0x1_0000_0000;

/** True when two blocks have the same id and the same guarantees, which is all the indexer uses. */
export function isSameBlock(a: FinalizedBlock, b: FinalizedBlock): boolean {
  return (
    a === b ||
    (a.id === b.id &&
      a.collectionIds.length === b.collectionIds.length &&
      a.collectionIds.every((id, place) => id === b.collectionIds[place]))
  );
}

/**
 * A block as the indexer uses it, from its wire form, light or full. Canonical bytes are copied as they are, all others
 * are re-encoded; fields outside the light form are dropped either way.
 *
 * Nothing proves a block's own fields: its id covers the header, which the light form does not carry. The parent links
 * show that it is the right block (invariant 4).
 *
 * Expected errors: `WireError`.
 */
export function finalizedBlock(wire: Uint8Array): FinalizedBlock {
  const scan = new LightFormScan(wire);
  if (scan.run()) return scan.result();
  const block = decodeBlock(wire);
  const collectionIds = block.guarantees.map((guarantee) => guarantee.collectionId);
  return {
    id: block.id,
    parentId: block.parentId,
    height: block.height,
    collectionIds,
    encoded: encodeBlock(block),
  };
}

/** One pass over a block: finds its parts, and whether they are canonical. */
class LightFormScan {
  readonly #reader: WireReader;
  #canonical = true;
  #idStart = -1;
  #parentIdStart = -1;
  #height = 0;
  readonly #collectionIds: Identifier[] = [];
  /** Fields 1 to 5 stand at `0 … headEnd`, field 7 at `signaturesStart … signaturesEnd`. */
  #headEnd = 0;
  #signaturesStart = 0;
  #signaturesEnd = 0;
  #keptBytes = 0;

  constructor(wire: Uint8Array) {
    this.#reader = new WireReader(wire);
  }

  /** True when the kept fields are canonical and contiguous in two pieces, so that `result` may copy them. */
  run(): boolean {
    const reader = this.#reader;
    let previous = 0;
    let start = 0;
    while (reader.next()) {
      const field = reader.field;
      if (field === 6 || field > 7) {
        reader.skip();
        start = reader.position;
        continue;
      }
      if (field < previous || (field === previous && field !== 5 && field !== 7)) this.#canonical = false;
      previous = field;
      this.#keep(field);
      this.#keptBytes += reader.position - start;
      if (this.#keptBytes > MAX_BLOCK_BYTES)
        throw new WireError(`a block has more than ${MAX_BLOCK_BYTES} bytes`);
      if (field === 7) {
        if (this.#signaturesEnd === 0) this.#signaturesStart = start;
        else if (this.#signaturesEnd !== start) this.#canonical = false;
        this.#signaturesEnd = reader.position;
      } else {
        if (this.#headEnd !== start) this.#canonical = false;
        this.#headEnd = reader.position;
      }
      start = reader.position;
    }
    return this.#canonical && reader.canonical && this.#idStart >= 0 && this.#parentIdStart >= 0;
  }

  result(): FinalizedBlock {
    const { bytes } = this.#reader;
    const encoded = Buffer.allocUnsafe(this.#keptBytes);
    bytes.copy(encoded, 0, 0, this.#headEnd);
    bytes.copy(encoded, this.#headEnd, this.#signaturesStart, this.#signaturesEnd);
    return {
      id: this.#identifierAt(this.#idStart),
      parentId: this.#identifierAt(this.#parentIdStart),
      height: this.#height,
      collectionIds: this.#collectionIds,
      encoded,
    };
  }

  #identifierAt(start: number): Identifier {
    return this.#reader.bytes.toString('hex', start, start + IDENTIFIER_BYTES) as Identifier;
  }

  /** Reads a field of the light form. */
  #keep(field: number): void {
    const reader = this.#reader;
    if (field === 3 && reader.wireType === VARINT) {
      this.#height = reader.safeInteger();
      if (this.#height === 0) this.#canonical = false;
      return;
    }
    if (field === 3 || reader.wireType !== LENGTH_DELIMITED) {
      this.#canonical = false;
      reader.skip();
      return;
    }
    switch (field) {
      case 1:
        this.#idStart = this.#identifier();
        break;
      case 2:
        this.#parentIdStart = this.#identifier();
        break;
      case 4:
        this.#timestamp();
        break;
      case 5:
        this.#guarantee();
        break;
      default:
        reader.skip();
    }
  }

  /** Skips a 32-byte field and returns its start; -1 when it has another size. */
  #identifier(): number {
    const length = this.#reader.length();
    const start = this.#reader.position;
    this.#reader.position = start + length;
    return length === IDENTIFIER_BYTES ? start : -1;
  }

  #timestamp(): void {
    const reader = this.#reader;
    const outerEnd = reader.enter();
    let previous = 0;
    let seconds = 0;
    let nanos = 0;
    while (reader.next()) {
      const field = reader.field;
      if (field <= previous || field > 2 || reader.wireType !== VARINT) {
        this.#canonical = false;
        reader.skip();
        continue;
      }
      previous = field;
      reader.varint();
      if ((reader.low | reader.high) === 0) this.#canonical = false;
      if (field === 1) {
        seconds = reader.high * TWO_POW_32 + (reader.low >>> 0);
      } else {
        nanos = reader.low;
        if (reader.high !== 0) this.#canonical = false;
      }
    }
    if (this.#canonical) checkTimestamp(seconds, nanos);
    reader.end = outerEnd;
  }

  #guarantee(): void {
    const reader = this.#reader;
    const outerEnd = reader.enter();
    let previous = 0;
    let collectionIdStart = -1;
    while (reader.next()) {
      const field = reader.field;
      const repeated = field === 2 || field === 5;
      if (field < previous || (field === previous && !repeated) || field > 7) this.#canonical = false;
      previous = field;
      if (reader.wireType !== LENGTH_DELIMITED) {
        this.#canonical = false;
        reader.skip();
      } else if (field === 1) {
        collectionIdStart = this.#identifier();
      } else {
        const length = reader.length();
        reader.position += length;
        if (length === 0 && !repeated) this.#canonical = false;
      }
    }
    if (collectionIdStart >= 0) this.#collectionIds.push(this.#identifierAt(collectionIdStart));
    else this.#canonical = false;
    reader.end = outerEnd;
  }
}
