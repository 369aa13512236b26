import { crc32 } from 'node:zlib';
import { identifierBytes } from '../../../flow/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { encodeBlockRecord, SLICE_BYTES } from '../coding/blockRecord.js';
import { writeHeight } from '../coding/heightRecords.js';
import { CHECKSUM_BYTES, seal } from '../coding/seal.js';
import { BLOCK_ID_KEY_BYTES, blockKey, BODY_CHUNK_BYTES, bodyChunks, bodyKey } from '../schema.js';
import { COLLECTION_KEY_BYTES, MAX_WHOLE_BODY_BYTES, Prefix, TRANSACTION_KEY_BYTES } from '../schema.js';

const ID_BYTES = 32;

/** The receiver must copy key and value to keep them: they may be overwritten after the call. */
export type Put = (key: Buffer, value: Buffer) => void;

/**
 * Every entry of the store that belongs to a block. Commit writes them, rewind removes them and verify expects them:
 * the single definition of what belongs to a block.
 */
export class BlockEntryWriter {
  /**
   * Bodies are assembled here, one after the other: allocating a buffer for each would cost more than copying.
   */
  readonly #body = Buffer.allocUnsafeSlow(MAX_WHOLE_BODY_BYTES + CHECKSUM_BYTES);

  put(entry: BlockEntry, put: Put): void {
    this.putBlock(entry, put);
    putPointers(entry, put);
  }

  /** The block record and the body alone. */
  putBlock(entry: BlockEntry, put: Put): void {
    const { block, collections } = entry;
    let bodyLength = 0;
    for (const { encoded } of collections) bodyLength += encoded.length;
    const key = blockKey(block.height);
    const record = encodeBlockRecord({
      encoded: block.encoded,
      proof: block.proof,
      collections: collections.map(({ encoded, ranges }) => ({
        length: encoded.length,
        transactionCount: ranges.length / 2,
      })),
      bodyLength,
    });
    put(key, seal(key, record));
    this.#putBody(entry, bodyLength, put);
  }

  #putBody({ block, collections }: BlockEntry, bodyLength: number, put: Put): void {
    const chunks = bodyChunks(bodyLength);
    if (chunks === 0) return;
    const body = chunks === 1 ? this.#body : Buffer.allocUnsafe(bodyLength);
    let position = 0;
    for (const { encoded } of collections) {
      body.set(encoded, position);
      position += encoded.length;
    }
    if (chunks === 1) {
      const key = bodyKey(block.height, 0);
      body.writeUInt32BE(crc32(body.subarray(0, bodyLength), crc32(key)), bodyLength);
      put(key, body.subarray(0, bodyLength + CHECKSUM_BYTES));
      return;
    }
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      const key = bodyKey(block.height, chunk);
      const start = chunk * BODY_CHUNK_BYTES;
      put(key, seal(key, body.subarray(start, Math.min(start + BODY_CHUNK_BYTES, bodyLength))));
    }
  }
}

/**
 * The pointers alone: block id, then per collection its id and the ids of its transactions. There are dozens per block,
 * so all of a kind share one buffer: what `put` receives is valid during the call only.
 */
export function putPointers({ block, collections }: BlockEntry, put: Put): void {
  const blockPointer = new PointerEntry(Prefix.blockId, BLOCK_ID_KEY_BYTES, 0, block.height);
  blockPointer.bytes.set(identifierBytes(block.id), 1);
  blockPointer.seal(put);
  if (collections.length === 0) return;
  const collection = new PointerEntry(Prefix.collection, COLLECTION_KEY_BYTES, SLICE_BYTES, block.height);
  const transaction = new PointerEntry(Prefix.transaction, TRANSACTION_KEY_BYTES, SLICE_BYTES, block.height);
  let offset = 0;
  for (const [collectionIndex, { id, encoded, ranges, transactionIds }] of collections.entries()) {
    collection.bytes.set(identifierBytes(id), 1);
    collection.bytes.writeUInt32BE(collectionIndex, BLOCK_ID_KEY_BYTES);
    collection.bytes.writeUInt32BE(offset, COLLECTION_KEY_BYTES);
    collection.bytes.writeUInt32BE(encoded.length, COLLECTION_KEY_BYTES + 4);
    collection.seal(put);
    const { bytes } = transaction;
    bytes.writeUInt32BE(collectionIndex, BLOCK_ID_KEY_BYTES);
    for (let index = 0; index < ranges.length / 2; index += 1) {
      for (let at = 0; at < ID_BYTES; at += 1)
        bytes[1 + at] = transactionIds[index * ID_BYTES + at] as number;
      bytes.writeUInt32BE(index, COLLECTION_KEY_BYTES);
      bytes.writeUInt32BE(offset + (ranges[2 * index] as number), TRANSACTION_KEY_BYTES);
      bytes.writeUInt32BE(ranges[2 * index + 1] as number, TRANSACTION_KEY_BYTES + 4);
      transaction.seal(put);
    }
    offset += encoded.length;
  }
}

/** Key, payload and checksum of pointers of one kind and height in one buffer. */
class PointerEntry {
  readonly bytes: Buffer;
  readonly #key: Buffer;
  readonly #value: Buffer;
  readonly #sealed: Buffer;

  constructor(prefix: number, keyBytes: number, payloadBytes: number, height: number) {
    const end = keyBytes + payloadBytes;
    this.bytes = Buffer.alloc(end + CHECKSUM_BYTES);
    this.bytes[0] = prefix;
    writeHeight(this.bytes, height, 1 + ID_BYTES);
    this.#sealed = this.bytes.subarray(0, end);
    this.#key = this.bytes.subarray(0, keyBytes);
    this.#value = this.bytes.subarray(keyBytes);
  }

  seal(put: Put): void {
    this.bytes.writeUInt32BE(crc32(this.#sealed), this.#sealed.length);
    put(this.#key, this.#value);
  }
}
