import { finalizedBlock } from './entities/finalizedBlock.js';
import { partCollector } from './entities/fullCollection.js';
import { toIdentifier } from './ids/identifiers.js';
import type { BlockExecutionData, BlockStatus, FinalizedBlock, Identifier } from './types.js';
import { RequestFields } from './wire/RequestFields.js';
import { LENGTH_DELIMITED, MAX_FIELDS, VARINT, WireReader } from './wire/WireReader.js';
import { WireError } from './WireError.js';

/** One per collection of a block (Flow's nodes put at most a hundred into a block), and the system chunk. No block can name so many. */
const MAX_CHUNKS = MAX_FIELDS;
/** A peer sends far fewer in one message. */
const MAX_BLOCKS = 10_000;

/** Decodes a block from its wire form, light or full (`flow.entities.Block`). Expected errors: `WireError`. */
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

/**
 * Decodes a `flow.executiondata.SubscribeExecutionDataResponse` down to the wire bytes of its transactions, which are
 * views of the message. Events, register updates and results are skipped unread. Expected errors: `WireError`.
 */
export function decodeExecutionDataResponse(message: Uint8Array): BlockExecutionData {
  const reader = new WireReader(message);
  const collect = partCollector();
  // A chunk whose collection occurs twice has the transactions of both: protobuf's merge rule.
  const readChunk = (into: Uint8Array[]): void => {
    while (reader.seek(1)) reader.within(() => collect(reader, into));
  };
  const found = new FoundBlock();
  let present = false;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === VARINT) {
      found.height = reader.safeInteger();
    } else if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) {
      present = true;
      reader.within(() => found.read(reader, { id: 1, chunk: 2 }, readChunk));
    } else {
      reader.skip();
    }
  }
  if (!present) throw new WireError('the message holds no execution data');
  return found.named('the execution data names no block', message.length);
}

/**
 * Decodes a `flow_collection_indexer.v1.SubscribeIndexedBlocksResponse` down to the wire bytes of its transactions, which
 * are views of the message. The blocks themselves are skipped unread. Expected errors: `WireError`.
 */
export function decodeIndexedBlocksResponse(message: Uint8Array): BlockExecutionData[] {
  const reader = new WireReader(message);
  const collect = partCollector();
  const blocks: BlockExecutionData[] = [];
  while (reader.seek(1)) {
    if (blocks.length >= MAX_BLOCKS) throw new WireError(`a message has more than ${MAX_BLOCKS} blocks`);
    reader.within(() => {
      const byteLength = reader.end - reader.position;
      const found = new FoundBlock();
      found.read(reader, { height: 1, id: 2, chunk: 4 }, (into) => collect(reader, into));
      blocks.push(found.named('a block of the message has no id', byteLength, true));
    });
  }
  return blocks;
}

/** The parts of a block read so far. */
class FoundBlock {
  height = 0;
  #blockId: Uint8Array | undefined;
  readonly #chunks: Uint8Array[][] = [];

  /** Reads the message at the reader's position; `height`, `id` and `chunk` are its field numbers. */
  read(
    reader: WireReader,
    { height, id, chunk }: { readonly height?: number; readonly id: number; readonly chunk: number },
    readChunk: (into: Uint8Array[]) => void,
  ): void {
    while (reader.next()) {
      const { field, wireType } = reader;
      if (field === height && wireType === VARINT) {
        this.height = reader.safeInteger();
      } else if (field === id && wireType === LENGTH_DELIMITED) {
        this.#blockId = reader.view();
      } else if (field === chunk && wireType === LENGTH_DELIMITED) {
        if (this.#chunks.length >= MAX_CHUNKS)
          throw new WireError(`a block has more than ${MAX_CHUNKS} chunks`);
        const into: Uint8Array[] = [];
        this.#chunks.push(into);
        reader.within(() => readChunk(into));
      } else {
        reader.skip();
      }
    }
  }

  /** Expected errors: `WireError` with the message `otherwise` if it has no id. */
  named(otherwise: string, byteLength: number, isWithoutSystem?: boolean): BlockExecutionData {
    if (this.#blockId === undefined) throw new WireError(otherwise);
    const blockId = toIdentifier(this.#blockId);
    return { height: this.height, blockId, chunks: this.#chunks, byteLength, isWithoutSystem };
  }
}
