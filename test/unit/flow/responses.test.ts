import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeCollectionResponse,
  decodeExecutionDataResponse,
  decodeFullCollectionResponse,
  decodeIndexedBlocksResponse,
  decodeTransactionResponse,
  encodeFullCollection,
  encodeTransaction,
  identifierBytes,
  WireError,
  WireWriter,
  type Identifier,
} from '../../../src/flow/index.js';
import { bytes, identifier, loadMessages, transaction, uint64 } from '../../support/flowWire.js';

const messages = loadMessages();
const encoded = (name: string, object: object): Uint8Array =>
  messages(name).encode(messages(name).fromObject(object)).finish();

const few = <T>(items: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(items, { maxLength: 3 });
const hash = bytes({ maxLength: 32 });
const wires = few(transaction.map(encodeTransaction));
const decoded = (wire: Uint8Array): object => messages('flow.entities.Transaction').decode(wire);
const metadata = fc.record({ latest_finalized_height: fc.nat(), node_id: hash });

/** Everything a chunk carries besides its transactions. */
const chunkExtras = fc.record({
  events: few(fc.record({ type: fc.string(), payload: bytes({ maxLength: 40 }), event_index: fc.nat() })),
  trieUpdate: fc.record({
    root_hash: hash,
    paths: few(hash),
    payloads: few(fc.record({ keyPart: few(fc.record({ type: fc.nat(), value: hash })), value: bytes({}) })),
  }),
  transaction_results: few(fc.record({ transaction_id: hash, failed: fc.boolean() })),
});

const executionData = fc.record({
  blockId: identifier,
  height: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  chunks: few(fc.tuple(wires, chunkExtras)),
});

function executionDataMessage(data: {
  readonly blockId: Identifier;
  readonly height: number;
  readonly chunks: readonly (readonly [readonly Uint8Array[], object])[];
}): Uint8Array {
  return encoded('flow.executiondata.SubscribeExecutionDataResponse', {
    block_height: String(data.height),
    block_execution_data: {
      block_id: identifierBytes(data.blockId),
      chunk_execution_data: data.chunks.map(([transactions, extras]) => ({
        ...extras,
        collection: { transactions: transactions.map(decoded) },
      })),
    },
    block_timestamp: { seconds: '-62135596800' },
    executor_metadata: { executor_ids: [Buffer.alloc(32)] },
  });
}

describe('answers', () => {
  it('execution data: chunks and transactions are located, everything else is skipped', () => {
    fc.assert(
      fc.property(executionData, (data) => {
        const message = executionDataMessage(data);
        expect(decodeExecutionDataResponse(message)).toEqual({
          height: data.height,
          blockId: data.blockId,
          chunks: data.chunks.map(([transactions]) => transactions),
          byteLength: message.length,
        });
      }),
    );
  });

  it('execution data in several parts is merged', () => {
    const id = Buffer.alloc(32, 1);
    const chunk = (wire: Buffer): Buffer =>
      new WireWriter().element(1, encodeFullCollection([wire])).finish();
    const [first, second, third] = ['01', '02', '03'].map((text) => Buffer.from(text, 'hex'));
    const message = new WireWriter()
      .element(2, new WireWriter().element(2, chunk(first!)).finish())
      .number(1, 9)
      .element(
        2,
        new WireWriter()
          .bytes(1, Buffer.alloc(32, 7))
          .element(2, Buffer.concat([chunk(second!), chunk(third!)]))
          .bytes(1, id)
          .finish(),
      )
      .finish();
    expect(decodeExecutionDataResponse(message)).toMatchObject({
      height: 9,
      blockId: id.toString('hex'),
      chunks: [[first], [second, third]],
    });
  });

  it('full collection', () => {
    fc.assert(
      fc.property(wires, metadata, (transactions, more) => {
        const message = encoded('flow.access.FullCollectionResponse', {
          transactions: transactions.map(decoded),
          metadata: more,
        });
        expect(decodeFullCollectionResponse(message)).toEqual(transactions);
      }),
    );
  });

  it('light collection', () => {
    fc.assert(
      fc.property(fc.array(identifier, { maxLength: 4 }), metadata, (ids, more) => {
        const message = encoded('flow.access.CollectionResponse', {
          collection: { id: Buffer.alloc(32), transaction_ids: ids.map(identifierBytes) },
          metadata: more,
        });
        expect(decodeCollectionResponse(message)).toEqual(ids);
      }),
    );
  });

  it('transaction', () => {
    fc.assert(
      fc.property(transaction.map(encodeTransaction), metadata, (wire, more) => {
        const message = encoded('flow.access.TransactionResponse', {
          transaction: decoded(wire),
          metadata: more,
        });
        expect(Buffer.from(decodeTransactionResponse(message))).toEqual(wire);
      }),
    );
  });

  const element = (...parts: Uint8Array[]): Uint8Array => new WireWriter().elements(1, parts).finish();
  const id = '07'.repeat(32);
  const manyChunks = Buffer.from(`1220${id}${'2200'.repeat(10_000)}`, 'hex');

  it.each<[string, () => unknown]>([
    ['no transaction', () => decodeTransactionResponse(new Uint8Array(0))],
    ['no collection', () => decodeCollectionResponse(new Uint8Array(0))],
    [
      'a light collection of a short id',
      () => decodeCollectionResponse(element(Buffer.from('120101', 'hex'))),
    ],
    ['no execution data', () => decodeExecutionDataResponse(new WireWriter().number(1, 5).finish())],
    ['execution data of no block', () => decodeExecutionDataResponse(Buffer.from('1200', 'hex'))],
    [
      'execution data of a height beyond 2^53',
      () => decodeExecutionDataResponse(new WireWriter().number(1, 2n ** 53n).finish()),
    ],
    [
      'too many unknown fields',
      () => decodeTransactionResponse(Buffer.from('1a000a00' + '1a00'.repeat(200_000), 'hex')),
    ],
    [
      'too many numbers',
      () => decodeExecutionDataResponse(Buffer.from('0801'.repeat(200_000) + `12221220${id}`, 'hex')),
    ],
    [
      'too many groups',
      () => decodeTransactionResponse(Buffer.from(`0b${'1314'.repeat(200_000)}0c0a00`, 'hex')),
    ],
    ['too many parts', () => decodeTransactionResponse(Buffer.from('0a00'.repeat(100_001), 'hex'))],
    [
      'a light collection of too many transactions',
      () => decodeCollectionResponse(element(Buffer.from(`1220${id}`.repeat(100_001), 'hex'))),
    ],
    [
      'blocks of too many chunks together',
      () => decodeIndexedBlocksResponse(element(...Array.from({ length: 11 }, () => manyChunks))),
    ],
    [
      'too many chunks',
      () =>
        decodeExecutionDataResponse(
          new WireWriter().element(2, Buffer.from('1200'.repeat(10_001), 'hex')).finish(),
        ),
    ],
    [
      'too many transactions over all chunks',
      () => {
        const chunk = new WireWriter().element(1, Buffer.from('0a00'.repeat(60_000), 'hex')).finish();
        return decodeExecutionDataResponse(
          new WireWriter().element(2, new WireWriter().elements(2, [chunk, chunk]).finish()).finish(),
        );
      },
    ],
  ])('are refused with %s', (_, run) => {
    expect(run).toThrow(WireError);
  });
});

describe('the wire writer', () => {
  it('writes 64-bit numbers as protobufjs does', () => {
    fc.assert(
      fc.property(uint64, (value) => {
        const ours = new WireWriter().number(3, value).finish();
        expect(ours).toEqual(Buffer.from(encoded('flow.entities.Block', { height: String(value) })));
      }),
    );
  });

  it('writes negative numbers as int64 and takes safe integers as they are', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        const ours = new WireWriter().number(1, value).finish();
        expect(ours).toEqual(Buffer.from(encoded('google.protobuf.Timestamp', { seconds: String(value) })));
      }),
    );
  });

  it('leaves defaults out, but not the elements of a repeated field', () => {
    const writer = new WireWriter().number(1, 0).number(2, 0n).bytes(3, Buffer.alloc(0)).text(4, '');
    expect(writer.finish()).toHaveLength(0);
    expect(writer.element(5, Buffer.alloc(0)).text(6, 'é').finish().toString('hex')).toBe('2a003202c3a9');
  });
});
