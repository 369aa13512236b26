/** Payload of a block record: everything of a block except its collections' bodies. */
export interface BlockRecord {
  /** The canonical light form. */
  readonly encoded: Uint8Array;
  /** What proves the block; absent where nothing does. */
  readonly proof?: Uint8Array | undefined;
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
const PROOF_LENGTH_BYTES = 4;
/** Set in the number of collections when a proof follows the shapes. */
const HAS_PROOF = 0x8000_0000;

/**
 * `u32 body length, u32 collections, (u32 length, u32 transaction count)*, canonical block`. With a proof the highest bit of
 * the collections is set, and `u32 length, proof` stands before the block.
 */
export function encodeBlockRecord({ encoded, proof, collections, bodyLength }: BlockRecord): Buffer {
  const shapesEnd = BLOCK_HEADER_BYTES + SHAPE_BYTES * collections.length;
  const start = shapesEnd + (proof === undefined ? 0 : PROOF_LENGTH_BYTES + proof.length);
  const payload = Buffer.allocUnsafe(start + encoded.length);
  payload.writeUInt32BE(bodyLength, 0);
  payload.writeUInt32BE(proof === undefined ? collections.length : collections.length + HAS_PROOF, 4);
  if (proof !== undefined) {
    payload.writeUInt32BE(proof.length, shapesEnd);
    payload.set(proof, shapesEnd + PROOF_LENGTH_BYTES);
  }
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
  const flagged = payload.readUInt32BE(4);
  const hasProof = flagged >= HAS_PROOF;
  const shapesEnd = BLOCK_HEADER_BYTES + SHAPE_BYTES * (hasProof ? flagged - HAS_PROOF : flagged);
  const proofStart = hasProof ? shapesEnd + PROOF_LENGTH_BYTES : shapesEnd;
  if (payload.length < proofStart) return undefined;
  const start = proofStart + (hasProof ? payload.readUInt32BE(shapesEnd) : 0);
  if (payload.length < start) return undefined;
  const collections: CollectionShape[] = [];
  let total = 0;
  for (let at = BLOCK_HEADER_BYTES; at < shapesEnd; at += SHAPE_BYTES) {
    const length = payload.readUInt32BE(at);
    collections.push({ length, transactionCount: payload.readUInt32BE(at + 4) });
    total += length;
  }
  if (total !== bodyLength) return undefined;
  const proof = hasProof ? payload.subarray(proofStart, start) : undefined;
  return { encoded: payload.subarray(start), proof, collections, bodyLength };
}

/** The place of a collection or transaction in its block's body. */
export interface Slice {
  readonly offset: number;
  readonly length: number;
}

export const SLICE_BYTES = 8;

export function decodeSlice(payload: Buffer): Slice | undefined {
  if (payload.length !== SLICE_BYTES) return undefined;
  return { offset: payload.readUInt32BE(0), length: payload.readUInt32BE(4) };
}

/** What an account key leads to. */
export interface AccountValue extends Slice {
  /** The sum of its roles (`accountRoles`). */
  readonly roles: number;
}

const ACCOUNT_VALUE_BYTES = 9;
const ALL_ROLES = 7;

export function encodeAccountValue({ roles, offset, length }: AccountValue): Buffer {
  const payload = Buffer.allocUnsafe(ACCOUNT_VALUE_BYTES);
  payload[0] = roles;
  payload.writeUInt32BE(offset, 1);
  payload.writeUInt32BE(length, 5);
  return payload;
}

export function decodeAccountValue(payload: Buffer): AccountValue | undefined {
  const [roles] = payload;
  if (payload.length !== ACCOUNT_VALUE_BYTES || roles === undefined) return undefined;
  if (roles === 0 || roles > ALL_ROLES) return undefined;
  return { roles, offset: payload.readUInt32BE(1), length: payload.readUInt32BE(5) };
}
