/** Payload of a block record: everything of a block except its collections' bodies. */
export interface BlockRecord {
  /** The canonical light form. */
  readonly encoded: Uint8Array;
  /** In guarantee order. */
  readonly collections: readonly CollectionShape[];
  readonly bodyLength: number;
}
export interface CollectionShape {
  /** Bytes in the body. */
  readonly length: number;
  readonly transactionCount: number;
}

const BLOCK_HEADER_BYTES = 8;
const SHAPE_BYTES = 8;

/** `u32 body length, u32 collections, (u32 length, u32 transaction count)*, canonical block`. */
export function encodeBlockRecord({ encoded, collections, bodyLength }: BlockRecord): Buffer {
  const start = BLOCK_HEADER_BYTES + SHAPE_BYTES * collections.length;
  const payload = Buffer.allocUnsafe(start + encoded.length);
  payload.writeUInt32BE(bodyLength, 0);
  payload.writeUInt32BE(collections.length, 4);
  collections.forEach(({ length, transactionCount }, index) => {
    payload.writeUInt32BE(length, BLOCK_HEADER_BYTES + SHAPE_BYTES * index);
    payload.writeUInt32BE(transactionCount, BLOCK_HEADER_BYTES + SHAPE_BYTES * index + 4);
  });
  payload.set(encoded, start);
  return payload;
}

/** `undefined` when the payload is not a block record. */
export function decodeBlockRecord(payload: Buffer): BlockRecord | undefined {
  if (payload.length < BLOCK_HEADER_BYTES) return undefined;
  const bodyLength = payload.readUInt32BE(0);
  const count = payload.readUInt32BE(4);
  const start = BLOCK_HEADER_BYTES + SHAPE_BYTES * count;
  if (payload.length < start) return undefined;
  const collections: CollectionShape[] = [];
  let total = 0;
  for (let at = BLOCK_HEADER_BYTES; at < start; at += SHAPE_BYTES) {
    const length = payload.readUInt32BE(at);
    collections.push({ length, transactionCount: payload.readUInt32BE(at + 4) });
    total += length;
  }
  if (total !== bodyLength) return undefined;
  return { encoded: payload.subarray(start), collections, bodyLength };
}
