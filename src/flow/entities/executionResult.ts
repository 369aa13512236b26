import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';

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
  const fields = readFields(encoded);
  return {
    previousResultId: fields.bytes(1),
    blockId: fields.bytes(2),
    chunks: fields.all(3).map(decodeChunk),
    serviceEvents: fields.all(4).map((event) => {
      const parts = readFields(event);
      return { type: parts.bytes(1).toString(), payload: parts.bytes(2) };
    }),
    executionDataId: fields.bytes(5),
  };
}

function decodeChunk(encoded: Uint8Array): Chunk {
  const fields = readFields(encoded);
  return {
    collectionIndex: Number(fields.integer(1)),
    startState: fields.bytes(2),
    eventCollection: fields.bytes(3),
    blockId: fields.bytes(4),
    totalComputationUsed: fields.integer(5),
    numberOfTransactions: Number(fields.integer(6)),
    index: fields.integer(7),
    endState: fields.bytes(8),
    serviceEventCount: Number(fields.integer(11)),
  };
}

/** The fields of a small message by number: the last value of a single one, all values of a repeated one. */
function readFields(encoded: Uint8Array) {
  const views = new Map<number, Buffer[]>();
  const integers = new Map<number, bigint>();
  const reader = new WireReader(encoded);
  while (reader.next()) {
    if (reader.wireType === VARINT) {
      integers.set(reader.field, reader.uint64());
    } else if (reader.wireType === LENGTH_DELIMITED) {
      const values = views.get(reader.field);
      if (values === undefined) views.set(reader.field, [reader.view()]);
      else values.push(reader.view());
    } else {
      reader.skip();
    }
  }
  return {
    bytes: (field: number): Buffer => views.get(field)?.at(-1) ?? Buffer.alloc(0),
    all: (field: number): readonly Buffer[] => views.get(field) ?? [],
    integer: (field: number): bigint => integers.get(field) ?? 0n,
  };
}
