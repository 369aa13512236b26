import { transactionCollector } from '../entities/fullCollection.js';
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
  const collect = transactionCollector();
  const found = new FoundBlock();
  const readBlock = (): void => {
    while (reader.next()) {
      if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) {
        found.blockId = reader.view();
      } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
        const chunk = found.nextChunk();
        // A chunk whose collection occurs twice has the transactions of both: protobuf's merge rule.
        reader.within(() => {
          while (reader.seek(1)) reader.within(() => collect(reader, chunk));
        });
      } else {
        reader.skip();
      }
    }
  };
  let present = false;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === VARINT) {
      found.height = reader.safeInteger();
    } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
      present = true;
      reader.within(readBlock);
    } else {
      reader.skip();
    }
  }
  if (!present) throw new WireError('the message holds no execution data');
  if (found.blockId === undefined) throw new WireError('the execution data names no block');
  const { height, blockId, chunks } = found;
  return { height, blockId: toIdentifier(blockId), chunks, byteLength: message.length };
}

/**
 * Decodes a `flow_collection_indexer.v1.SubscribeIndexedBlocksResponse` down to the wire bytes of its transactions, which
 * are views of the message. The blocks themselves are skipped unread. Expected errors: `WireError`.
 */
export function decodeIndexedBlocksResponse(message: Uint8Array): BlockExecutionData[] {
  const reader = new WireReader(message);
  const collect = transactionCollector();
  const blocks: BlockExecutionData[] = [];
  const readBlock = (): void => {
    const byteLength = reader.end - reader.position;
    const found = new FoundBlock();
    while (reader.next()) {
      if (reader.field === 1 && reader.wireType === VARINT) {
        found.height = reader.safeInteger();
      } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
        found.blockId = reader.view();
      } else if (reader.field === 4 && reader.wireType === LENGTH_DELIMITED) {
        const chunk = found.nextChunk();
        reader.within(() => collect(reader, chunk));
      } else {
        reader.skip();
      }
    }
    const { height, blockId, chunks } = found;
    if (blockId === undefined) throw new WireError('a block of the message has no id');
    blocks.push({ height, blockId: toIdentifier(blockId), chunks, isWithoutSystem: true, byteLength });
  };
  while (reader.seek(1)) {
    if (blocks.length >= MAX_BLOCKS) throw new WireError(`a message has more than ${MAX_BLOCKS} blocks`);
    reader.within(readBlock);
  }
  return blocks;
}

/** A block as far as it has been read. */
class FoundBlock {
  height = 0;
  blockId: Uint8Array | undefined;
  readonly chunks: Uint8Array[][] = [];

  nextChunk(): Uint8Array[] {
    if (this.chunks.length >= MAX_CHUNKS) throw new WireError(`a block has more than ${MAX_CHUNKS} chunks`);
    const chunk: Uint8Array[] = [];
    this.chunks.push(chunk);
    return chunk;
  }
}
