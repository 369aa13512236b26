import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeBlock, decodeBlockMessage, decodeBlockResponse } from '../../../src/flow/index.js';
import { decodeSubscribeBlocksResponse, encodeBlock, WireError } from '../../../src/flow/index.js';
import { WireWriter, ZERO_ID } from '../../../src/flow/index.js';
import type { Block } from '../../../src/flow/index.js';
import { block, blockFields, bytes, choices, inHex, loadMessages } from '../../support/flowWire.js';
import { scrambled } from '../../support/flowWire.js';

const messages = loadMessages();
const BlockMessage = messages('flow.entities.Block');
const BlockResponse = messages('flow.access.BlockResponse');
const hex = (text: string): Buffer => Buffer.from(text, 'hex');

const plain: Block = {
  id: ZERO_ID,
  parentId: ZERO_ID,
  height: 7,
  timestamp: { seconds: 1n, nanos: 2 },
  guarantees: [],
  signatures: [],
};

const id = bytes({ maxLength: 32 });
/** What a node adds to the light form when it is asked for the full one. */
const fullOnly = fc.record({
  block_seals: fc.array(fc.record({ block_id: id, final_state: id }), { maxLength: 2 }),
  execution_receipt_metaList: fc.array(fc.record({ executor_id: id }), { maxLength: 2 }),
  execution_result_list: fc.array(fc.record({ block_id: id }), { maxLength: 2 }),
  block_header: fc.record({ id, chain_id: fc.constant('flow-mainnet') }),
  protocol_state_id: id,
});

it('agree with protobufjs', () => {
  fc.assert(
    fc.property(block, (each) => {
      const encoded = encodeBlock(each);
      expect(inHex(decodeBlock(encoded))).toEqual(inHex(each));
      const decoded = BlockMessage.decode(encoded);
      expect(inHex(BlockMessage.encode(decoded).finish())).toBe(inHex(encoded));
      const { timestamp } = each;
      const message = {
        ...{
          id: each.id,
          parent_id: each.parentId,
          height: String(each.height),
          signatures: each.signatures,
        },
        timestamp: timestamp === undefined ? null : { ...timestamp, seconds: String(timestamp.seconds) },
        collection_guarantees: each.guarantees.map((guarantee) => ({
          collection_id: guarantee.collectionId,
          signatures: guarantee.signatures,
          reference_block_id: guarantee.referenceBlockId,
          signature: guarantee.signature,
          signer_ids: guarantee.signerIds,
          signer_indices: guarantee.signerIndices,
          cluster_chain_id: guarantee.clusterChainId,
        })),
      };
      const theirs = BlockMessage.toObject(decoded, { longs: String, defaults: true, bytes: Buffer });
      expect(inHex(theirs)).toMatchObject(inHex(message) as object);
    }),
  );
});

it('have one canonical light form, whatever encoding they come in', () => {
  fc.assert(
    fc.property(block, choices, (each, choose) => {
      const encoded = encodeBlock(each);
      const expected = {
        id: each.id,
        parentId: each.parentId,
        height: each.height,
        collectionIds: each.guarantees.map((guarantee) => guarantee.collectionId),
      };
      for (const wire of [encoded, scrambled(blockFields(each), choose)]) {
        const { encoded: kept, ...rest } = decodeBlockMessage(wire);
        expect(rest).toEqual(expected);
        expect(inHex(kept)).toBe(inHex(encoded));
      }
    }),
  );
});

it('are the same from a full and a light answer, from a call and a stream', () => {
  fc.assert(
    fc.property(block, fullOnly, (each, more) => {
      const light = encodeBlock(each);
      const expected = inHex(decodeBlockMessage(light));
      const full = BlockMessage.encode(
        BlockMessage.fromObject({ ...BlockMessage.toObject(BlockMessage.decode(light)), ...more }),
      ).finish();
      expect(inHex(decodeBlockMessage(full))).toEqual(expected);
      // The full form's fields in front, where no encoder of Flow puts them.
      const inFront = Buffer.concat([hex('5a0101'), light, hex('32025000')]);
      expect(inHex(decodeBlockMessage(inFront))).toEqual(expected);
      const streamed = decodeSubscribeBlocksResponse(new WireWriter().element(1, full).finish());
      expect(inHex(streamed)).toEqual(expected);
      const answer = BlockResponse.encode(
        BlockResponse.fromObject({
          block: BlockMessage.decode(full),
          block_status: 2,
          metadata: { latest_finalized_height: 9 },
        }),
      ).finish();
      expect(inHex(decodeBlockResponse(answer))).toEqual({ block: expected, status: 'sealed' });
    }),
  );
});

it('given in two parts are merged, and keep no hold of the message they came in', () => {
  const wire = encodeBlock(plain);
  const answer = new WireWriter().element(1, wire.subarray(0, 34)).element(1, wire.subarray(34)).finish();
  expect(decodeBlockResponse(answer).block).toEqual(decodeBlockMessage(wire));
  const message = encodeBlock(plain);
  const { encoded } = decodeBlockMessage(message);
  const before = Buffer.from(encoded);
  message.fill(0);
  expect(Buffer.from(encoded)).toEqual(before);
});

it.each([
  [0, 'unknown'],
  [1, 'finalized'],
  [2, 'sealed'],
  [3, 'unknown'],
])('status %d is %s', (value, status) => {
  const answer = new WireWriter().element(1, encodeBlock(plain)).number(2, value).finish();
  expect(decodeBlockResponse(answer).status).toBe(status);
});

const withFields = (change: (writer: WireWriter) => void): Uint8Array => {
  const writer = new WireWriter().bytes(1, Buffer.alloc(32, 1)).bytes(2, Buffer.alloc(32, 2)).number(3, 7);
  change(writer);
  return writer.finish();
};

it.each<[string, Uint8Array]>([
  ['no id', new WireWriter().bytes(2, Buffer.alloc(32)).finish()],
  ['no parent', new WireWriter().bytes(1, Buffer.alloc(32)).finish()],
  ['a short id', new WireWriter().bytes(1, Buffer.alloc(31)).bytes(2, Buffer.alloc(32)).finish()],
  ['a long parent id', new WireWriter().bytes(1, Buffer.alloc(32)).bytes(2, Buffer.alloc(33)).finish()],
  ['a height of 2^53', withFields((writer) => writer.number(3, 2n ** 53n))],
  ['a height of 2^64 - 1', withFields((writer) => writer.number(3, 2n ** 64n - 1n))],
  ['a guarantee without collection id', withFields((writer) => writer.element(5, Buffer.alloc(0)))],
  ['a guarantee of a short collection id', withFields((writer) => writer.element(5, hex('0a0101')))],
  [
    'a timestamp of the year 10000',
    withFields((writer) => writer.element(4, new WireWriter().number(1, 253_402_300_800n).finish())),
  ],
  ['a timestamp of negative nanos', withFields((writer) => writer.element(4, hex('10ffffffffffffffffff01')))],
  ['bytes beyond all measure', withFields((writer) => writer.element(7, Buffer.alloc(4 * 1024 * 1024)))],
  ['many fields', Buffer.concat([hex('3a00'.repeat(100_001)), withFields(() => undefined)])],
  [
    'much that is unknown in front of it',
    Buffer.concat([
      new WireWriter().element(12, Buffer.alloc(4 * 1024 * 1024)).finish(),
      withFields(() => undefined),
    ]),
  ],
  ['a cut signature', withFields((writer) => writer.element(7, Buffer.alloc(5))).subarray(0, -1)],
])('with %s are refused', (_, wire) => {
  expect(() => decodeBlockMessage(wire)).toThrow(WireError);
});

it('missing from their answer are refused', () => {
  expect(() => decodeBlockResponse(new WireWriter().number(2, 1).finish())).toThrow(WireError);
  expect(() => decodeSubscribeBlocksResponse(new Uint8Array(0))).toThrow(WireError);
});
