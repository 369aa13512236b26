import { finalizedBlock } from '../entities/finalizedBlock.js';
import { toIdentifier } from '../ids/identifiers.js';
import type { BlockStatus, FinalizedBlock, Identifier } from '../types.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';
import { WireError } from '../WireError.js';

/**
 * Makes a block of its wire form, light or full (`flow.entities.Block`). Expected errors: `WireError`.
 */
export type BlockDecoder = (message: Uint8Array) => FinalizedBlock;

/** Decodes a `flow.access.BlockResponse`. An unknown status becomes `unknown`. Expected errors: `WireError`. */
export function decodeBlockResponse(
  message: Uint8Array,
  decode: BlockDecoder = finalizedBlock,
): { block: FinalizedBlock; status: BlockStatus } {
  const block = decode(messageField(message, 'block'));
  const reader = new WireReader(message);
  let status = 0;
  while (reader.next()) {
    if (reader.field === 2 && reader.wireType === VARINT) status = reader.uint32();
    else reader.skip();
  }
  return { block, status: blockStatus(status) };
}

/** Decodes a `flow.access.SubscribeBlocksResponse`. Expected errors: `WireError`. */
export function decodeSubscribeBlocksResponse(
  message: Uint8Array,
  decode: BlockDecoder = finalizedBlock,
): FinalizedBlock {
  return decode(messageField(message, 'block'));
}

/**
 * Decodes a `flow_collection_indexer.v1.ProvableBlock` down to its light block and the proof, which is empty where the index
 * has none. Both are views of the message. Expected errors: `WireError`.
 */
export function decodeProvableBlock(message: Uint8Array): { block: Uint8Array; proof: Uint8Array } {
  const block = messageField(message, 'block');
  const reader = new WireReader(message);
  let proof: Uint8Array = new Uint8Array();
  while (reader.next()) {
    if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) proof = reader.view();
    else reader.skip();
  }
  return { block, proof };
}

function blockStatus(value: number): BlockStatus {
  if (value === 1) return 'finalized';
  return value === 2 ? 'sealed' : 'unknown';
}

/** The transaction ids of a `flow.access.CollectionResponse` (light collection), in order. Expected errors: `WireError`. */
export function decodeCollectionResponse(message: Uint8Array): Identifier[] {
  const reader = new WireReader(messageField(message, 'collection'));
  const ids: Identifier[] = [];
  while (reader.next()) {
    if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) ids.push(toIdentifier(reader.view()));
    else reader.skip();
  }
  return ids;
}

/** The wire bytes of the transaction in a `flow.access.TransactionResponse`. Expected errors: `WireError`. */
export function decodeTransactionResponse(message: Uint8Array): Uint8Array {
  return messageField(message, 'transaction');
}

/**
 * Field 1 of a message, itself a singular message. Repeated occurrences are concatenated: protobuf's merge rule.
 * Expected errors: `WireError`, also when it is absent.
 */
function messageField(message: Uint8Array, name: string): Uint8Array {
  const reader = new WireReader(message);
  let count = 0;
  let size = 0;
  let only: Uint8Array | undefined;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      only = reader.view();
      count++;
      size += only.length;
    } else {
      reader.skip();
    }
  }
  if (only === undefined) throw new WireError(`the message holds no ${name}`);
  return count === 1 ? only : mergedField(message, size);
}

function mergedField(message: Uint8Array, size: number): Uint8Array {
  const merged = Buffer.allocUnsafe(size);
  const reader = new WireReader(message);
  let position = 0;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      const part = reader.view();
      merged.set(part, position);
      position += part.length;
    } else {
      reader.skip();
    }
  }
  return merged;
}
