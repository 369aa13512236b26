import { RequestFields } from '../wire/RequestFields.js';

/** What an execution node claims of a block, as on the wire. Byte fields are views of the message; ids are not checked. */
export interface ExecutionResult {
  readonly previousResultId: Uint8Array;
  readonly blockId: Uint8Array;
  readonly chunks: readonly Chunk[];
  readonly serviceEvents: readonly ServiceEvent[];
  readonly executionDataId: Uint8Array;
}

export interface Chunk {
  readonly collectionIndex: number;
  readonly startState: Uint8Array;
  readonly eventCollection: Uint8Array;
  readonly blockId: Uint8Array;
  readonly totalComputationUsed: bigint;
  readonly numberOfTransactions: number;
  readonly index: bigint;
  readonly endState: Uint8Array;
  /** As sent: nodes mark an absent count with a bit above the 16th. */
  readonly serviceEventCount: number;
}

export interface ServiceEvent {
  readonly type: string;
  /** JSON. */
  readonly payload: Uint8Array;
}

/** Decodes `flow.entities.ExecutionResult`. Expected errors: `WireError`. */
export function decodeExecutionResult(encoded: Uint8Array): ExecutionResult {
  const fields = new RequestFields(encoded);
  return {
    previousResultId: fields.bytes(1),
    blockId: fields.bytes(2),
    chunks: fields.all(3).map(decodeChunk),
    serviceEvents: fields.all(4).map((event) => {
      const parts = new RequestFields(event);
      return { type: parts.text(1), payload: parts.bytes(2) };
    }),
    executionDataId: fields.bytes(5),
  };
}

function decodeChunk(encoded: Uint8Array): Chunk {
  const fields = new RequestFields(encoded);
  return {
    collectionIndex: Number(fields.number(1)),
    startState: fields.bytes(2),
    eventCollection: fields.bytes(3),
    blockId: fields.bytes(4),
    totalComputationUsed: fields.number(5),
    numberOfTransactions: Number(fields.number(6)),
    index: fields.number(7),
    endState: fields.bytes(8),
    serviceEventCount: Number(fields.number(11)),
  };
}
