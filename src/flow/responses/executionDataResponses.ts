import { transactionCollector } from '../entities/fullCollection.js';
import type { CollectTransactions } from '../entities/fullCollection.js';
import { toIdentifier } from '../ids/identifiers.js';
import type { BlockExecutionData } from '../types.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';
import { WireError } from '../WireError.js';

/** Flow has one chunk per collection of a block, a few dozen, and the system chunk. */
const MAX_CHUNKS = 10_000;
/** A peer sends far fewer in one message. */
const MAX_BLOCKS = 10_000;

/**
 * Decodes a `flow.executiondata.SubscribeExecutionDataResponse` down to the wire bytes of its transactions, which are
 * views of the message. Events, register updates and results are skipped unread. Expected errors: `WireError`.
 */
export function decodeExecutionDataResponse(message: Uint8Array): BlockExecutionData {
  const reader = new WireReader(message);
  const found: FoundExecutionData = { blockId: undefined, chunks: [] };
  const collect = transactionCollector();
  let height = 0;
  let present = false;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === VARINT) {
      height = reader.safeInteger();
    } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
      present = true;
      const outerEnd = reader.enter();
      readBlockExecutionData(reader, found, collect);
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
  const collect = transactionCollector();
  const blocks: BlockExecutionData[] = [];
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      if (blocks.length >= MAX_BLOCKS) throw new WireError(`a message has more than ${MAX_BLOCKS} blocks`);
      const outerEnd = reader.enter();
      blocks.push(readIndexedBlock(reader, collect));
      reader.end = outerEnd;
    } else {
      reader.skip();
    }
  }
  return blocks;
}

function readIndexedBlock(reader: WireReader, collect: CollectTransactions): BlockExecutionData {
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
      readCollection(reader, transactions, collect);
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
  collect: CollectTransactions,
): void {
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      found.blockId = reader.view();
    } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
      const transactions: Uint8Array[] = [];
      const outerEnd = reader.enter();
      readChunk(reader, transactions, collect);
      reader.end = outerEnd;
      addChunk(found.chunks, transactions);
    } else {
      reader.skip();
    }
  }
}

/** A chunk whose collection occurs twice has the transactions of both: protobuf's merge rule. */
function readChunk(reader: WireReader, transactions: Uint8Array[], collect: CollectTransactions): void {
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
      readCollection(reader, transactions, collect);
    } else {
      reader.skip();
    }
  }
}

/** The transactions of the full collection that comes next. */
function readCollection(reader: WireReader, transactions: Uint8Array[], collect: CollectTransactions): void {
  const outerEnd = reader.enter();
  collect(reader, transactions);
  reader.end = outerEnd;
}

function addChunk(chunks: Uint8Array[][], transactions: Uint8Array[]): void {
  if (chunks.length >= MAX_CHUNKS) throw new WireError(`a block has more than ${MAX_CHUNKS} chunks`);
  chunks.push(transactions);
}
