import { finalizedBlock } from '../entities/finalizedBlock.js';
import type { BlockStatus, FinalizedBlock } from '../types.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';
import { messageField } from './messageField.js';

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

/** Decodes a bare `flow.entities.Block` in light or full form. Expected errors: `WireError`. */
export function decodeBlockMessage(message: Uint8Array): FinalizedBlock {
  return finalizedBlock(message);
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
