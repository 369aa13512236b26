import { RequestFields } from '../wire/RequestFields.js';

/** What an execution node claims of a block, as on the wire. Byte fields are views of the message; ids are not checked. */
export type ExecutionResult = Readonly<ReturnType<typeof decodeExecutionResult>>;
export type Chunk = Readonly<ReturnType<typeof decodeChunk>>;

/** Decodes `flow.entities.ExecutionResult`. Expected errors: `WireError`. */
export function decodeExecutionResult(encoded: Uint8Array) {
  const fields = new RequestFields(encoded);
  return {
    previousResultId: fields.bytes(1),
    blockId: fields.bytes(2),
    chunks: fields.all(3).map(decodeChunk),
    serviceEvents: fields.all(4).map((event) => {
      const parts = new RequestFields(event);
      /** `payload` is JSON. */
      return { type: parts.text(1), payload: parts.bytes(2) };
    }),
    executionDataId: fields.bytes(5),
  };
}

function decodeChunk(encoded: Uint8Array) {
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
    /** As sent: nodes mark an absent count with a bit above the 16th. */
    serviceEventCount: Number(fields.number(11)),
  };
}
