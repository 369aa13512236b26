import { finalizedBlock } from '../entities/finalizedBlock.js';
import { toIdentifier } from '../ids/identifiers.js';
import type { BlockStatus, FinalizedBlock, Identifier } from '../types.js';
import { RequestFields } from '../wire/RequestFields.js';
import { WireError } from '../WireError.js';

/** Makes a block of its wire form, light or full (`flow.entities.Block`). Expected errors: `WireError`. */
export type BlockDecoder = (message: Uint8Array) => FinalizedBlock;

/** Decodes a `flow.access.BlockResponse`. An unknown status becomes `unknown`. Expected errors: `WireError`. */
export function decodeBlockResponse(
  message: Uint8Array,
  decode: BlockDecoder = finalizedBlock,
): { block: FinalizedBlock; status: BlockStatus } {
  const fields = new RequestFields(message);
  const block = decode(firstField(fields, 'block'));
  const status = fields.uint32(2);
  return { block, status: status === 1 ? 'finalized' : status === 2 ? 'sealed' : 'unknown' };
}

/** Decodes a `flow.access.SubscribeBlocksResponse`. Expected errors: `WireError`. */
export function decodeSubscribeBlocksResponse(
  message: Uint8Array,
  decode: BlockDecoder = finalizedBlock,
): FinalizedBlock {
  return decode(firstField(new RequestFields(message), 'block'));
}

/**
 * Decodes a `flow_collection_indexer.v1.ProvableBlock` down to its light block and the proof, which is empty where the index
 * has none. Both are views of the message. Expected errors: `WireError`.
 */
export function decodeProvableBlock(message: Uint8Array): { block: Uint8Array; proof: Uint8Array } {
  const fields = new RequestFields(message);
  return { block: firstField(fields, 'block'), proof: fields.bytes(2) };
}

/** The transaction ids of a `flow.access.CollectionResponse` (light collection), in order. Expected errors: `WireError`. */
export function decodeCollectionResponse(message: Uint8Array): Identifier[] {
  const collection = firstField(new RequestFields(message), 'collection');
  return new RequestFields(collection).all(2).map(toIdentifier);
}

/** The wire bytes of the transaction in a `flow.access.TransactionResponse`. Expected errors: `WireError`. */
export function decodeTransactionResponse(message: Uint8Array): Uint8Array {
  return firstField(new RequestFields(message), 'transaction');
}

/**
 * Field 1 of a message, itself a singular message. Repeated occurrences are concatenated: protobuf's merge rule.
 * Expected errors: `WireError`, also when it is absent.
 */
function firstField(fields: RequestFields, name: string): Uint8Array {
  const parts = fields.all(1);
  const [only] = parts;
  if (only === undefined) throw new WireError(`the message holds no ${name}`);
  return parts.length === 1 ? only : Buffer.concat(parts);
}
