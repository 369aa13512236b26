import { identifierBytes, NO_TIME, transactionId, WireWriter } from '../../flow/index.js';
import type { ChainGenerator, GeneratedBlock } from './ChainGenerator.js';
import { ExecutionBulk } from './ExecutionBulk.js';

const SALT_EXECUTION = 1;

/** One block's execution data in parts, so that a fault can assemble it wrongly. */
export interface ExecutionDataParts {
  readonly height: number;
  readonly blockId: Uint8Array;
  /** `ChunkExecutionData` messages: one per guarantee, then the system chunk if the chain has one. */
  readonly chunks: readonly Uint8Array[];
}

/** `SubscribeExecutionDataResponse`. */
export function encodeExecutionDataResponse(parts: ExecutionDataParts): Buffer {
  const body = blockExecutionData(parts);
  // The server sends no timestamp on this stream, so Go's zero time arrives.
  const timestamp = new WireWriter().number(1, NO_TIME.seconds).finish();
  return Buffer.concat([
    new WireWriter().number(1, parts.height).finish(),
    fieldHeader(2, byteLength(body)),
    ...body,
    new WireWriter().element(3, timestamp).finish(),
  ]);
}

/** `GetExecutionDataByBlockIDResponse`. */
export function encodeExecutionDataAnswer(parts: ExecutionDataParts): Buffer {
  const body = blockExecutionData(parts);
  return Buffer.concat([fieldHeader(1, byteLength(body)), ...body]);
}

/** `flow.entities.BlockExecutionData` in pieces, because most of the cost of such large messages is copying. */
function blockExecutionData({ blockId, chunks }: ExecutionDataParts): Uint8Array[] {
  const pieces: Uint8Array[] = [fieldHeader(1, blockId.length), blockId];
  for (const chunk of chunks) pieces.push(fieldHeader(2, chunk.length), chunk);
  return pieces;
}

/** Builds the execution data of a chain's blocks. */
export class ExecutionDataMaker {
  readonly #generator: ChainGenerator;
  readonly #bulk: ExecutionBulk;

  constructor(dependencies: { readonly generator: ChainGenerator }) {
    this.#generator = dependencies.generator;
    this.#bulk = new ExecutionBulk(dependencies.generator.profile);
  }

  parts(block: GeneratedBlock): ExecutionDataParts {
    const blockId = identifierBytes(block.id);
    const systemTransactions = this.#generator.systemTransactions(block.height);
    const words = this.#generator.words(block.height, SALT_EXECUTION);
    const trieBytes = Math.floor(this.#generator.profile.trieUpdateBytes / (block.collections.length + 1));
    let transactionIndex = 0;
    const chunk = (collection: Uint8Array, ids: Buffer): Buffer => {
      const pieces: Uint8Array[] = [fieldHeader(1, collection.length), collection];
      for (let at = 0; at < ids.length; at += 32) pieces.push(this.#bulk.events(ids, at, transactionIndex++));
      const trieUpdate = this.#bulk.trieUpdate(trieBytes, words);
      pieces.push(fieldHeader(3, byteLength(trieUpdate)), ...trieUpdate);
      for (let at = 0; at < ids.length; at += 32) pieces.push(this.#bulk.result(ids, at, words));
      return Buffer.concat(pieces);
    };
    const chunks = block.collections.map(({ encoded, transactionIds }) => chunk(encoded, transactionIds));
    if (systemTransactions.length > 0) {
      const system = new WireWriter().elements(1, systemTransactions).finish();
      chunks.push(chunk(system, this.#systemIds(systemTransactions)));
    }
    return { height: block.height, blockId, chunks };
  }

  #systemIds(transactions: readonly Buffer[]): Buffer {
    return Buffer.concat(
      transactions.map((wire) => this.#generator.systemTransactionId(wire) ?? transactionId(wire)),
    );
  }
}

function byteLength(pieces: readonly Uint8Array[]): number {
  let sum = 0;
  for (const piece of pieces) sum += piece.length;
  return sum;
}

/** Tag and length of a field of `length` bytes; field numbers up to 15. */
function fieldHeader(field: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(6);
  header[0] = field * 8 + 2;
  let at = 1;
  let rest = length;
  for (; rest > 0x7f; rest >>>= 7) header[at++] = (rest & 0x7f) | 0x80;
  header[at++] = rest;
  return header.subarray(0, at);
}
