import { readFileSync } from 'node:fs';
import { RLP } from '@ethereumjs/rlp';
import { sha3_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { collectionIdOf, decodeTransaction, encodeTransaction } from '../../../src/flow/index.js';
import { transactionId, WireError } from '../../../src/flow/index.js';
import type { Transaction, TransactionSignature } from '../../../src/flow/index.js';
import { choices, inHex, loadMessages, scrambled, transaction } from '../../support/flowWire.js';
import { transactionFields } from '../../support/flowWire.js';
import { signatureBy } from '../../support/storeBlocks.js';

const hex = (text: string): Buffer => Buffer.from(text, 'hex');

/** All other texts of the vectors are bytes. */
const TEXTS = ['name', 'id', 'gas_limit', 'sequence_number'];
const vectors = JSON.parse(
  readFileSync(new URL('../../data/id-vectors.json', import.meta.url), 'utf8'),
  (key, value: unknown) => (typeof value === 'string' && !TEXTS.includes(key) ? hex(value) : value),
) as Readonly<{
  transactions: readonly { readonly name: string; readonly id: string; readonly protobuf: object }[];
  collections: readonly { readonly name: string; readonly id: string; readonly transaction_ids: Buffer[] }[];
}>;
const TransactionMessage = loadMessages()('flow.entities.Transaction');

it.each(vectors.transactions)('known answers: transaction: $name', ({ id, protobuf }) => {
  // Encoded by protobufjs, so that nothing of ours stands between the vector and its id.
  const wire = TransactionMessage.encode(TransactionMessage.fromObject(protobuf)).finish();
  expect(transactionId(wire).toString('hex')).toBe(id);
});

it.each(vectors.collections)('known answers: collection: $name', ({ id, transaction_ids }) => {
  expect(collectionIdOf(Buffer.concat(transaction_ids))).toBe(id);
});

it('known answers: the empty collection is a list that holds one empty list; an id that is cut short makes none', () => {
  expect(() => collectionIdOf(Buffer.alloc(33))).toThrow(WireError);
  expect(collectionIdOf(new Uint8Array(0))).toBe(Buffer.from(sha3_256(hex('c1c0'))).toString('hex'));
});

type Item = Uint8Array | Item[];

/** The id's definition, written down once more from the decoded transaction, with libraries for RLP and SHA3. */
function reference(tx: Transaction): Item[] {
  const pad = (address: Uint8Array): Buffer => Buffer.concat([Buffer.alloc(8), address]).subarray(-8);
  const integer = (value: bigint): Buffer => {
    if (value === 0n) return Buffer.alloc(0);
    const digits = value.toString(16);
    return hex(digits.length % 2 === 0 ? digits : `0${digits}`);
  };
  const proposer = pad(tx.proposalKey?.address ?? Buffer.alloc(0));
  const payer = pad(tx.payer);
  const authorizers = tx.authorizers.map(pad);
  const signers = [...[proposer, payer].filter((each) => each.some((byte) => byte !== 0)), ...authorizers]
    .map((each) => each.toString('hex'))
    .filter((each, index, all) => all.indexOf(each) === index);
  const signatures = (list: readonly TransactionSignature[]): Item[] =>
    list.map((each) => {
      const index = signers.indexOf(pad(each.address).toString('hex'));
      const item: Item[] = [
        integer(BigInt.asUintN(64, BigInt(index))),
        integer(BigInt(each.keyId)),
        each.signature,
      ];
      const plain =
        each.extensionData.length === 0 || Buffer.from(each.extensionData).equals(Buffer.alloc(1));
      if (!plain) item.push(each.extensionData);
      return item;
    });
  return [
    [
      tx.script,
      [...tx.arguments],
      Buffer.concat([tx.referenceBlockId, Buffer.alloc(32)]).subarray(0, 32),
      integer(tx.gasLimit),
      proposer,
      integer(BigInt(tx.proposalKey?.keyId ?? 0)),
      integer(tx.proposalKey?.sequenceNumber ?? 0n),
      payer,
      authorizers,
    ],
    signatures(tx.payloadSignatures),
    signatures(tx.envelopeSignatures),
  ];
}

const expectTrueId = (tx: Transaction): void => {
  const id = Buffer.from(sha3_256(RLP.encode(reference(tx)))).toString('hex');
  expect(transactionId(encodeTransaction(tx)).toString('hex')).toBe(id);
};

it('transaction ids agree with RLP and SHA3 of other hands, also where a large script needs a larger working buffer', () => {
  fc.assert(fc.property(transaction, expectTrueId), { numRuns: 200 });
  expectTrueId({ ...empty, script: Buffer.alloc(1_500_000, 0x20) });
});

it('transaction ids find signers among very many authorizers', () => {
  const authorizers = Array.from({ length: 300 }, (_, index) => {
    const address = Buffer.alloc(8);
    address.writeUInt32BE(index % 250, 4);
    return address;
  });
  const signatures = authorizers
    .toReversed()
    .map((address, keyId) => signatureBy(address, keyId, Buffer.from('signature')));
  const envelopeSignatures = [{ ...signatures[0]!, address: hex('ffffffffffffffff') }];
  expectTrueId({ ...empty, authorizers, payloadSignatures: signatures, envelopeSignatures });
});

it('transaction ids are refused for more bytes than any transaction has', () => {
  const wire = encodeTransaction({ ...empty, script: Buffer.alloc(4 * 1024 * 1024) });
  expect(() => transactionId(wire)).toThrow(WireError);
  expect(() => decodeTransaction(wire)).toThrow(WireError);
  const many = encodeTransaction({ ...empty, arguments: new Array(100_001).fill(Buffer.alloc(0)) });
  expect(() => transactionId(Buffer.concat([many, hex('0a00')]))).toThrow(WireError);
  expect(decodeTransaction(many).arguments).toHaveLength(100_001);
});

const empty: Transaction = {
  script: Buffer.alloc(0),
  arguments: [],
  referenceBlockId: Buffer.alloc(0),
  gasLimit: 0n,
  proposalKey: undefined,
  payer: Buffer.alloc(0),
  authorizers: [],
  payloadSignatures: [],
  envelopeSignatures: [],
};

it('decoding and encoding transactions agree with protobufjs, in canonical form and on the worst of encodings', () => {
  fc.assert(
    fc.property(transaction, choices, (tx, choose) => {
      const canonical = encodeTransaction(tx);
      for (const wire of [canonical, scrambled(transactionFields(tx), choose)]) {
        expect(inHex(decodeTransaction(wire))).toEqual(inHex(tx));
        expect(inHex(encodeTransaction(decodeTransaction(wire)))).toBe(inHex(canonical));
        expect(transactionId(wire)).toEqual(transactionId(canonical));
        const theirs = TransactionMessage.decode(wire);
        const options = { longs: String, defaults: true, bytes: Buffer };
        expect(inHex(TransactionMessage.toObject(theirs, options))).toEqual(inHex(asMessage(tx)));
        expect(inHex(decodeTransaction(TransactionMessage.encode(theirs).finish()))).toEqual(inHex(tx));
      }
    }),
    { numRuns: 60 },
  );
});

it.each([
  ['a field number of zero', '0000'],
  ['a field number above 29 bits', 'ffffffff7f00'],
  ['a number of eleven bytes', '2080808080808080808080' + '01'],
  ['a number that ends in the middle', '2080'],
  ['a length beyond the end', '0a05aa'],
  ['a length beyond 32 bits', '0affffffffff01'],
  ['an end of group without beginning', '0c'],
  ['a group that ends as another', '0b14'],
  ['a group without end', '0b'],
  ['groups nested for ever', '0b'.repeat(200) + '0c'.repeat(200)],
  ['the impossible wire type 6', '0e'],
  ['a nested message that leaves its bounds', '2a020a05' + 'aa'.repeat(10)],
  ['a fixed64 cut short', '0900'],
])('decoding and encoding transactions refuses %s', (_, wire) => {
  expect(() => decodeTransaction(hex(wire))).toThrow(WireError);
  expect(() => transactionId(hex(wire))).toThrow(WireError);
});

it('decoding and encoding transactions cuts a key id that does not fit into 32 bits, and takes a known field of another wire type for an unknown one, as protobuf prescribes', () => {
  // proposal_key { key_id: 2^32 + 5 }
  const long = hex('2a06' + '10' + '8580808010');
  expect(decodeTransaction(long).proposalKey?.keyId).toBe(5);
  expect(transactionId(long)).toEqual(transactionId(hex('2a02' + '1005')));
  // script as a varint, then gas_limit as bytes
  const wire = hex('0805' + '220141');
  expect(decodeTransaction(wire)).toEqual(empty);
  expect(transactionId(wire)).toEqual(transactionId(new Uint8Array(0)));
});

function asMessage(tx: Transaction): object {
  const signatures = (list: readonly TransactionSignature[]): object[] =>
    list.map(({ keyId, extensionData, ...rest }) => ({
      ...rest,
      ...{ key_id: keyId, extension_data: extensionData },
    }));
  const { script, payer, authorizers, proposalKey: key } = tx;
  return {
    ...{ script, arguments: tx.arguments, payer, authorizers },
    ...{ reference_block_id: tx.referenceBlockId, gas_limit: String(tx.gasLimit) },
    proposal_key:
      key === undefined
        ? null
        : { address: key.address, key_id: key.keyId, sequence_number: String(key.sequenceNumber) },
    payload_signatures: signatures(tx.payloadSignatures),
    envelope_signatures: signatures(tx.envelopeSignatures),
  };
}
