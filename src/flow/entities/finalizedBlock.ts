import { decodeBlock, encodeBlock, isCanonicalTimestamp } from './block.js';
import { WireError } from '../WireError.js';
import { IDENTIFIER_BYTES } from '../ids/identifiers.js';
import { MAX_BLOCK_BYTES } from './fullBlock.js';
import type { FinalizedBlock, Identifier } from '../types.js';
import { LENGTH_DELIMITED, MAX_FIELDS, VARINT, WireReader } from '../wire/WireReader.js';

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
 * Nothing here proves the block's fields: its id covers the header, which the light form lacks. The parent links show that it
 * is the right block (invariant 4).
 *
 * Expected errors: `WireError`.
 */
export function finalizedBlock(wire: Uint8Array): FinalizedBlock {
  if (wire.length > MAX_BLOCK_BYTES) throw new WireError(`a block has more than ${MAX_BLOCK_BYTES} bytes`);
  const scan = new LightFormScan(wire);
  if (scan.run()) return scan.result();
  const block = decodeBlock(wire, MAX_FIELDS);
  const { height, id, parentId } = block;
  const collectionIds = block.guarantees.map((guarantee) => guarantee.collectionId);
  return { id, parentId, height, collectionIds, encoded: encodeBlock(block) };
}

/**
 * One pass over a block: finds its parts, and whether they are canonical. The canonical form is a grammar without choices, so
 * the scan simply follows it; any other bytes are left to the decoder.
 */
class LightFormScan {
  readonly #reader: WireReader;
  #idStart = -1;
  #parentIdStart = -1;
  #height = 0;
  readonly #collectionIds: Identifier[] = [];
  /** Where the last field begins. */
  #tagStart = 0;
  /** Fields 1 to 5 stand at `0 … headEnd`, field 7 at `signaturesStart … signaturesEnd`. */
  #headEnd = 0;
  #signaturesStart = 0;
  #signaturesEnd = 0;

  constructor(wire: Uint8Array) {
    this.#reader = new WireReader(wire);
  }

  /** True when the kept fields are canonical and contiguous in two pieces, so that `result` may copy them. */
  run(): boolean {
    const reader = this.#reader;
    if (this.#next() !== 1 || (this.#idStart = this.#identifier()) < 0) return false;
    if (this.#next() !== 2 || (this.#parentIdStart = this.#identifier()) < 0) return false;
    let field = this.#next();
    if (field === 3) {
      this.#height = reader.safeInteger();
      if (this.#height === 0) return false;
      field = this.#next();
    }
    if (field === 4) {
      if (!isCanonicalTimestamp(reader.view())) return false;
      field = this.#next();
    }
    for (; field === 5; field = this.#next()) if (!this.#guarantee()) return false;
    this.#headEnd = this.#tagStart;
    for (; field === 6; field = this.#next()) reader.skip();
    this.#signaturesStart = this.#tagStart;
    for (; field === 7; field = this.#next()) reader.skip();
    this.#signaturesEnd = this.#tagStart;
    for (; field > 7; field = this.#next()) reader.skip();
    return field === 0 && reader.canonical;
  }

  result(): FinalizedBlock {
    const { bytes } = this.#reader;
    const encoded = Buffer.allocUnsafe(this.#headEnd + this.#signaturesEnd - this.#signaturesStart);
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

  /** The number of the next field; 0 at the end, -1 for a field of the light form that has the wire type of another. */
  #next(): number {
    const reader = this.#reader;
    this.#tagStart = reader.position;
    if (!reader.next()) return 0;
    const { field, wireType } = reader;
    return field > 7 || wireType === (field === 3 ? VARINT : LENGTH_DELIMITED) ? field : -1;
  }

  /** Skips a 32-byte field and returns its start; -1 when it has another size. */
  #identifier(): number {
    const length = this.#reader.length();
    const start = this.#reader.position;
    this.#reader.position = start + length;
    return length === IDENTIFIER_BYTES ? start : -1;
  }

  #guarantee(): boolean {
    const reader = this.#reader;
    const outerEnd = reader.enter();
    const collectionIdStart = this.#next() === 1 ? this.#identifier() : -1;
    if (collectionIdStart < 0) return false;
    for (let previous = 1; reader.next(); previous = reader.field) {
      const { field, wireType } = reader;
      const isRepeated = field === 2 || field === 5;
      if (wireType !== LENGTH_DELIMITED || field > 7 || field < previous) return false;
      if (field === previous && !isRepeated) return false;
      const length = reader.length();
      if (length === 0 && !isRepeated) return false;
      reader.position += length;
    }
    this.#collectionIds.push(this.#identifierAt(collectionIdStart));
    reader.end = outerEnd;
    return true;
  }
}
