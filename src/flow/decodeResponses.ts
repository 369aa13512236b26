import { splitCollection } from './collection.js';
import { TransactionLimit } from './TransactionLimit.js';
import { WireError } from './WireError.js';
import { finalizedBlock } from './finalizedBlock.js';
import { toIdentifier } from './ids/identifiers.js';
import type { BlockExecutionData, BlockStatus, FinalizedBlock, Identifier } from './types.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from './wire/WireReader.js';

/** Flow has one chunk per collection of a block, a few dozen, and the system chunk. */
const MAX_CHUNKS = 10_000;
/** A peer sends far fewer in one message. */
const MAX_BLOCKS = 10_000;

/** Decodes a `flow.access.BlockResponse`. An unknown status becomes `unknown`. Expected errors: `WireError`. */
export function decodeBlockResponse(message: Uint8Array): { block: FinalizedBlock; status: BlockStatus } {
  const block = finalizedBlock(messageField(message, 'block'));
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
export function decodeSubscribeBlocksResponse(message: Uint8Array): FinalizedBlock {
  return finalizedBlock(messageField(message, 'block'));
}

/**
 * Decodes a `flow.access.FullCollectionResponse` down to the wire bytes of its transactions, which are views of the
 * message. Nothing is verified. Expected errors: `WireError`.
 */
export function decodeFullCollectionResponse(message: Uint8Array): Uint8Array[] {
  return splitCollection(message);
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
 * Decodes a `flow.executiondata.SubscribeExecutionDataResponse` down to the wire bytes of its transactions, which are
 * views of the message. Events, register updates and results are skipped unread. Expected errors: `WireError`.
 */
export function decodeExecutionDataResponse(message: Uint8Array): BlockExecutionData {
  const reader = new WireReader(message);
  const found: FoundExecutionData = { blockId: undefined, chunks: [] };
  const limit = new TransactionLimit();
  let height = 0;
  let present = false;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === VARINT) {
      height = reader.safeInteger();
    } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
      present = true;
      const outerEnd = reader.enter();
      readBlockExecutionData(reader, found, limit);
      reader.end = outerEnd;
    } else {
      reader.skip();
    }
  }
  if (!present) throw new WireError('the message holds no execution data');
  if (found.blockId === undefined) throw new WireError('the execution data names no block');
  return { height, blockId: toIdentifier(found.blockId), chunks: found.chunks, byteLength: message.length };
}

/**
 * Decodes a `flow_collection_indexer.v1.SubscribeIndexedBlocksResponse` down to the wire bytes of its transactions, which
 * are views of the message. The blocks themselves are skipped unread. Expected errors: `WireError`.
 */
export function decodeIndexedBlocksResponse(message: Uint8Array): BlockExecutionData[] {
  const reader = new WireReader(message);
  const limit = new TransactionLimit();
  const blocks: BlockExecutionData[] = [];
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      if (blocks.length >= MAX_BLOCKS) throw new WireError(`a message has more than ${MAX_BLOCKS} blocks`);
      const outerEnd = reader.enter();
      blocks.push(readIndexedBlock(reader, limit));
      reader.end = outerEnd;
    } else {
      reader.skip();
    }
  }
  return blocks;
}

function readIndexedBlock(reader: WireReader, limit: TransactionLimit): BlockExecutionData {
  const byteLength = reader.end - reader.position;
  const chunks: Uint8Array[][] = [];
  let height = 0;
  let blockId: Uint8Array | undefined;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === VARINT) {
      height = reader.safeInteger();
    } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
      blockId = reader.view();
    } else if (reader.field === 4 && reader.wireType === LENGTH_DELIMITED) {
      const transactions: Uint8Array[] = [];
      readCollection(reader, transactions, limit);
      addChunk(chunks, transactions);
    } else {
      reader.skip();
    }
  }
  if (blockId === undefined) throw new WireError('a block of the message has no id');
  return { height, blockId: toIdentifier(blockId), chunks, isWithoutSystem: true, byteLength };
}

interface FoundExecutionData {
  blockId: Uint8Array | undefined;
  readonly chunks: Uint8Array[][];
}

function readBlockExecutionData(
  reader: WireReader,
  found: FoundExecutionData,
  limit: TransactionLimit,
): void {
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      found.blockId = reader.view();
    } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
      const transactions: Uint8Array[] = [];
      const outerEnd = reader.enter();
      readChunk(reader, transactions, limit);
      reader.end = outerEnd;
      addChunk(found.chunks, transactions);
    } else {
      reader.skip();
    }
  }
}

/** A chunk whose collection occurs twice has the transactions of both: protobuf's merge rule. */
function readChunk(reader: WireReader, transactions: Uint8Array[], limit: TransactionLimit): void {
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      readCollection(reader, transactions, limit);
    } else {
      reader.skip();
    }
  }
}

/** The transactions of the full collection that comes next. */
function readCollection(reader: WireReader, transactions: Uint8Array[], limit: TransactionLimit): void {
  const outerEnd = reader.enter();
  limit.collect(reader, transactions);
  reader.end = outerEnd;
}

function addChunk(chunks: Uint8Array[][], transactions: Uint8Array[]): void {
  if (chunks.length >= MAX_CHUNKS) throw new WireError(`a block has more than ${MAX_CHUNKS} chunks`);
  chunks.push(transactions);
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

function blockStatus(value: number): BlockStatus {
  if (value === 1) return 'finalized';
  return value === 2 ? 'sealed' : 'unknown';
}
