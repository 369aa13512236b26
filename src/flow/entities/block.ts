import { WireError } from '../WireError.js';
import { identifierBytes, toIdentifier } from '../ids/identifiers.js';
import type { Block, CollectionGuarantee, Timestamp } from '../types.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';
import { WireWriter } from '../wire/WireWriter.js';

/** Protobuf's range of valid timestamps: the years 1 to 9999. */
const TIMESTAMP_SECONDS_MIN = -62_135_596_800;
const TIMESTAMP_SECONDS_MAX = 253_402_300_799;
const NANOS_PER_SECOND = 1_000_000_000;

const EMPTY = Buffer.alloc(0);

/**
 * What stands everywhere for the time of a block that has none: Go's zero time, 0001-01-01T00:00:00Z, which is what Flow's nodes
 * show and send.
 */
export const NO_TIME: Timestamp = { seconds: BigInt(TIMESTAMP_SECONDS_MIN), nanos: 0 };

/**
 * Decodes a block of any form (light, full, or one of ours), keeping the light form's fields. Byte fields are views of
 * `encoded`. Expected errors: `WireError` (also for an id that is not 32 bytes, a height that is not a safe integer, or
 * an invalid timestamp).
 */
export function decodeBlock(encoded: Uint8Array): Block {
  const reader = new WireReader(encoded);
  let id: Uint8Array = EMPTY;
  let parentId: Uint8Array = EMPTY;
  let height = 0;
  let timestamp: Timestamp | undefined;
  const guarantees: CollectionGuarantee[] = [];
  const signatures: Uint8Array[] = [];
  while (reader.next()) {
    if (reader.field === 3 && reader.wireType === VARINT) {
      height = reader.safeInteger();
      continue;
    }
    if (reader.wireType !== LENGTH_DELIMITED) {
      reader.skip();
      continue;
    }
    switch (reader.field) {
      case 1:
        id = reader.view();
        break;
      case 2:
        parentId = reader.view();
        break;
      case 4:
        timestamp = decodeTimestamp(reader.view(), timestamp);
        break;
      case 5:
        guarantees.push(decodeGuarantee(reader.view()));
        break;
      case 7:
        signatures.push(reader.view());
        break;
      default:
        reader.skip();
    }
  }
  if (timestamp !== undefined) checkTimestamp(Number(timestamp.seconds), timestamp.nanos);
  return {
    id: toIdentifier(id),
    parentId: toIdentifier(parentId),
    height,
    timestamp,
    guarantees,
    signatures,
  };
}

function decodeTimestamp(wire: Uint8Array, earlier: Timestamp | undefined): Timestamp {
  const reader = new WireReader(wire);
  let seconds = earlier?.seconds ?? 0n;
  let nanos = earlier?.nanos ?? 0;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === VARINT) {
      seconds = BigInt.asIntN(64, reader.uint64());
    } else if (reader.field === 2 && reader.wireType === VARINT) {
      nanos = reader.uint32() | 0;
    } else {
      reader.skip();
    }
  }
  return { seconds, nanos };
}

/** Expected errors: `WireError`. */
export function checkTimestamp(seconds: number, nanos: number): void {
  if (
    seconds < TIMESTAMP_SECONDS_MIN ||
    seconds > TIMESTAMP_SECONDS_MAX ||
    nanos < 0 ||
    nanos >= NANOS_PER_SECOND
  ) {
    throw new WireError('a block timestamp is out of range');
  }
}

function decodeGuarantee(wire: Uint8Array): CollectionGuarantee {
  const reader = new WireReader(wire);
  let collectionId: Uint8Array = EMPTY;
  const signatures: Uint8Array[] = [];
  let referenceBlockId: Uint8Array = EMPTY;
  let signature: Uint8Array = EMPTY;
  const signerIds: Uint8Array[] = [];
  let signerIndices: Uint8Array = EMPTY;
  let clusterChainId: Uint8Array = EMPTY;
  while (reader.next()) {
    if (reader.wireType !== LENGTH_DELIMITED) {
      reader.skip();
      continue;
    }
    switch (reader.field) {
      case 1:
        collectionId = reader.view();
        break;
      case 2:
        signatures.push(reader.view());
        break;
      case 3:
        referenceBlockId = reader.view();
        break;
      case 4:
        signature = reader.view();
        break;
      case 5:
        signerIds.push(reader.view());
        break;
      case 6:
        signerIndices = reader.view();
        break;
      case 7:
        clusterChainId = reader.view();
        break;
      default:
        reader.skip();
    }
  }
  return {
    collectionId: toIdentifier(collectionId),
    referenceBlockId,
    signature,
    signatures,
    signerIds,
    signerIndices,
    clusterChainId,
  };
}

/** The canonical light form of a block, in a buffer of its own. */
export function encodeBlock(block: Block): Uint8Array {
  const writer = new WireWriter()
    .bytes(1, identifierBytes(block.id))
    .bytes(2, identifierBytes(block.parentId))
    .number(3, block.height);
  if (block.timestamp !== undefined) {
    const { seconds, nanos } = block.timestamp;
    writer.element(4, new WireWriter().number(1, seconds).number(2, nanos).finish());
  }
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
