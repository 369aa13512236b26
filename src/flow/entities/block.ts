import { WireError } from '../WireError.js';
import { identifierBytes, toIdentifier } from '../ids/identifiers.js';
import type { Block, CollectionGuarantee, Timestamp } from '../types.js';
import { RequestFields } from '../wire/RequestFields.js';
import { WireWriter } from '../wire/WireWriter.js';

/** Protobuf's range of valid timestamps: the years 1 to 9999. */
const TIMESTAMP_SECONDS_MIN = -62_135_596_800;
const TIMESTAMP_SECONDS_MAX = 253_402_300_799;
const NANOS_PER_SECOND = 1_000_000_000;

/**
 * The time used everywhere for a block that has none: Go's zero time, 0001-01-01T00:00:00Z, which Flow's nodes show and
 * send.
 */
export const NO_TIME: Timestamp = { seconds: BigInt(TIMESTAMP_SECONDS_MIN), nanos: 0 };

/**
 * Decodes a block of any form (light, full, or one of ours), keeping the light form's fields. Byte fields are views of
 * `encoded`. Expected errors: `WireError` (also for an id that is not 32 bytes, a height that is not a safe integer, or
 * an invalid timestamp).
 */
export function decodeBlock(encoded: Uint8Array, mostFields = encoded.length): Block {
  const fields = new RequestFields(encoded, mostFields);
  const time = fields.message(4);
  return {
    id: toIdentifier(fields.bytes(1)),
    parentId: toIdentifier(fields.bytes(2)),
    height: fields.safeInteger(3),
    timestamp: time && timestampOf(time),
    guarantees: fields.all(5).map(decodeGuarantee),
    signatures: fields.all(7),
  };
}

/** The time of a block alone, as `decodeBlock` gives it. Expected errors: `WireError`. */
export function timeOfBlock(encoded: Uint8Array): Timestamp | undefined {
  const time = new RequestFields(encoded).message(4);
  return time && timestampOf(time);
}

function timestampOf(time: RequestFields): Timestamp {
  const seconds = BigInt.asIntN(64, time.number(1));
  const nanos = time.uint32(2) | 0;
  const isValid = seconds >= TIMESTAMP_SECONDS_MIN && seconds <= TIMESTAMP_SECONDS_MAX;
  if (!isValid || nanos < 0 || nanos >= NANOS_PER_SECOND)
    throw new WireError('a block timestamp is out of range');
  return { seconds, nanos };
}

/** `google.protobuf.Timestamp`. */
export function encodeTimestamp({ seconds, nanos }: Timestamp): Buffer {
  return new WireWriter().number(1, seconds).number(2, nanos).finish();
}

/** Expected errors: `WireError` (the time is out of range). */
export function isCanonicalTimestamp(wire: Uint8Array): boolean {
  return encodeTimestamp(timestampOf(new RequestFields(wire))).equals(wire);
}

function decodeGuarantee(wire: Uint8Array): CollectionGuarantee {
  const fields = new RequestFields(wire);
  return {
    collectionId: toIdentifier(fields.bytes(1)),
    signatures: fields.all(2),
    referenceBlockId: fields.bytes(3),
    signature: fields.bytes(4),
    signerIds: fields.all(5),
    signerIndices: fields.bytes(6),
    clusterChainId: fields.bytes(7),
  };
}

/** The canonical light form of a block, in a buffer of its own. */
export function encodeBlock(block: Block): Uint8Array {
  const writer = new WireWriter()
    .bytes(1, identifierBytes(block.id))
    .bytes(2, identifierBytes(block.parentId))
    .number(3, block.height);
  if (block.timestamp !== undefined) writer.element(4, encodeTimestamp(block.timestamp));
  return writer.elements(5, block.guarantees.map(encodeGuarantee)).elements(7, block.signatures).finish();
}

/** The canonical form of a guarantee. */
export function encodeGuarantee(guarantee: CollectionGuarantee): Buffer {
  return new WireWriter()
    .bytes(1, identifierBytes(guarantee.collectionId))
    .elements(2, guarantee.signatures)
    .bytes(3, guarantee.referenceBlockId)
    .bytes(4, guarantee.signature)
    .elements(5, guarantee.signerIds)
    .bytes(6, guarantee.signerIndices)
    .bytes(7, guarantee.clusterChainId)
    .finish();
}
