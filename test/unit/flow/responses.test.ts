import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeCollectionResponse, decodeExecutionDataResponse } from '../../../src/flow/index.js';
import { decodeIndexedBlocksResponse, splitCollection } from '../../../src/flow/index.js';
import { decodeTransactionResponse, encodeFullCollection } from '../../../src/flow/index.js';
import { encodeTransaction, identifierBytes, WireError, WireWriter } from '../../../src/flow/index.js';
import type { Identifier } from '../../../src/flow/index.js';
import { bytes, identifier, inHex, loadMessages, transaction } from '../../support/flowWire.js';

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

it('execution data: chunks and transactions are located, everything else is skipped', () => {
  fc.assert(
    fc.property(executionData, (data) => {
      const message = executionDataMessage(data);
      const { chunks, ...rest } = decodeExecutionDataResponse(message);
      expect(rest).toEqual({ height: data.height, blockId: data.blockId, byteLength: message.length });
      expect(chunks.map(inHex)).toEqual(data.chunks.map(([transactions]) => inHex(transactions)));
    }),
  );
});

it('execution data in several parts is merged', () => {
  const id = Buffer.alloc(32, 1);
  const chunk = (wire: Buffer): Buffer => new WireWriter().element(1, encodeFullCollection([wire])).finish();
  const [first, second, third] = ['01', '02', '03'].map((text) => Buffer.from(text, 'hex'));
  const early = new WireWriter().element(2, chunk(first!)).finish();
  const late = new WireWriter()
    .bytes(1, Buffer.alloc(32, 7))
    .element(2, Buffer.concat([chunk(second!), chunk(third!)]))
    .bytes(1, id);
  const message = new WireWriter().element(2, early).number(1, 9).element(2, late.finish()).finish();
  expect(decodeExecutionDataResponse(message)).toMatchObject({
    height: 9,
    blockId: id.toString('hex'),
    chunks: [[first], [second, third]],
  });
});

const isDecoded = <T>(
  decode: (message: Uint8Array) => T,
  [name, values]: readonly [name: string, values: fc.Arbitrary<T>],
  fieldsOf: (value: T) => object,
): void =>
  fc.assert(
    fc.property(values, metadata, (value, more) => {
      const message = encoded(`flow.access.${name}`, { ...fieldsOf(value), metadata: more });
      expect(inHex(decode(message))).toEqual(inHex(value));
    }),
  );

it('full collection, light collection, transaction', () => {
  const full = ['FullCollectionResponse', wires] as const;
  isDecoded(splitCollection, full, (all) => ({ transactions: all.map(decoded) }));
  const light = ['CollectionResponse', fc.array(identifier, { maxLength: 4 })] as const;
  isDecoded(decodeCollectionResponse, light, (ids) => ({
    collection: { id: Buffer.alloc(32), transaction_ids: ids.map(identifierBytes) },
  }));
  const one = ['TransactionResponse', transaction.map(encodeTransaction)] as const;
  isDecoded(decodeTransactionResponse, one, (wire) => ({ transaction: decoded(wire) }));
});

const id = '07'.repeat(32);
/** A field of bytes, in hexadecimal, with these parts in it. */
const field = (number: number, ...parts: string[]): string =>
  new WireWriter()
    .element(number, Buffer.from(parts.join(''), 'hex'))
    .finish()
    .toString('hex');
const chunkOf = (transactions: number): string => field(2, field(1, '0a00'.repeat(transactions)));
const block = field(1, `1220${id}${'2200'.repeat(10_000)}`);
const beyond2to53 = new WireWriter()
  .number(1, 2n ** 53n)
  .finish()
  .toString('hex');

it.each<[string, (message: Uint8Array) => unknown, hex: string]>([
  ['no transaction', decodeTransactionResponse, ''],
  ['no collection', decodeCollectionResponse, ''],
  ['a light collection of a short id', decodeCollectionResponse, field(1, '120101')],
  ['no execution data', decodeExecutionDataResponse, '0805'],
  ['execution data of no block', decodeExecutionDataResponse, '1200'],
  ['execution data of a height beyond 2^53', decodeExecutionDataResponse, beyond2to53],
  ['too many unknown fields', decodeTransactionResponse, '1a000a00' + '1a00'.repeat(200_000)],
  ['too many numbers', decodeExecutionDataResponse, '0801'.repeat(200_000) + `12221220${id}`],
  ['too many groups', decodeTransactionResponse, `0b${'1314'.repeat(200_000)}0c0a00`],
  ['too many parts', decodeTransactionResponse, '0a00'.repeat(100_001)],
  ['too many transactions in it', decodeCollectionResponse, field(1, `1220${id}`.repeat(100_001))],
  ['blocks of too many chunks together', decodeIndexedBlocksResponse, block.repeat(11)],
  ['too many chunks', decodeExecutionDataResponse, field(2, '1200'.repeat(100_001))],
  ['too many transactions over all chunks', decodeExecutionDataResponse, field(2, chunkOf(60_000).repeat(2))],
])('are refused with %s', (_, decode, hex) => {
  expect(() => decode(Buffer.from(hex, 'hex'))).toThrow(WireError);
});
