import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { restBlock, restBlockPayload, restTransaction, transactionBody } from '../../../src/api/json.js';
import { selectFields } from '../../../src/api/rest/flowRoutes.js';
import { encodeBlock, encodeTransaction, toIdentifier, transactionId } from '../../../src/flow/index.js';
import type { Timestamp, Transaction } from '../../../src/flow/index.js';
import { idOf, smallChain, transactionWith } from '../../support/smallChain.js';

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

function asRest(transaction: Transaction) {
  const wire = encodeTransaction(transaction);
  return transactionBody(toIdentifier(transactionId(wire)), wire);
}

describe('transaction', () => {
  it('has exactly the shape of Flow', () => {
    const wire = encodeTransaction(transactionWith());
    const id = toIdentifier(transactionId(wire));
    expect(restTransaction(id, wire)).toEqual({
      id,
      script: base64('transaction { execute { log("hello") } }'),
      arguments: [base64('{"type":"UInt8","value":"1"}\n')],
      reference_block_id: 'ab'.repeat(32),
      gas_limit: '9999',
      payer: 'f8d6e0586b0a20c7',
      proposal_key: { address: 'f8d6e0586b0a20c7', key_index: '3', sequence_number: '42' },
      authorizers: ['f8d6e0586b0a20c7', '01cf0e2f2f715450'],
      payload_signatures: [{ address: '01cf0e2f2f715450', key_index: '0', signature: base64('first') }],
      envelope_signatures: [
        { address: 'f8d6e0586b0a20c7', key_index: '3', signature: base64('second'), extension_data: 'AQID' },
      ],
      _expandable: { result: `/v1/transaction_results/${id}` },
      _links: { _self: `/v1/transactions/${id}` },
    });
  });

  it('has arrays, addresses and a proposal key also where the transaction has none', () => {
    const bare = asRest(
      transactionWith({
        script: Buffer.alloc(0),
        arguments: [],
        referenceBlockId: Buffer.alloc(0),
        proposalKey: undefined,
        payer: Buffer.alloc(0),
        authorizers: [],
        payloadSignatures: [],
        envelopeSignatures: [],
      }),
    );
    expect(bare).toMatchObject({
      script: '',
      arguments: [],
      reference_block_id: '0'.repeat(64),
      payer: '0'.repeat(16),
      proposal_key: { address: '0'.repeat(16), key_index: '0', sequence_number: '0' },
      authorizers: [],
      payload_signatures: [],
      envelope_signatures: [],
    });
  });

  it('writes 64-bit numbers without loss', () => {
    const largest = 2n ** 64n - 1n;
    const proposalKey = { address: Buffer.from([1]), keyId: 2 ** 32 - 1, sequenceNumber: largest };
    expect(asRest(transactionWith({ gasLimit: largest, proposalKey }))).toMatchObject({
      gas_limit: '18446744073709551615',
      proposal_key: { key_index: '4294967295', sequence_number: '18446744073709551615' },
    });
  });

  it('writes every address with 16 digits: short ones padded in front, of long ones the end', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20 }), (address) => {
        const hex = Buffer.from(address).toString('hex');
        const { payer } = asRest(transactionWith({ payer: address }));
        expect(payer).toBe(('0'.repeat(16) + hex).slice(-16));
      }),
    );
  });
});

describe('block', () => {
  const [block, childless] = smallChain(10, [[[transactionWith()]], []]).map((entry) => entry.block);
  const { encoded } = block!;

  it('has arrays where there are no collections', () => {
    expect(restBlockPayload(childless!.encoded)).toEqual({ collection_guarantees: [], block_seals: [] });
  });

  it.each([
    [undefined, 'BLOCK_FINALIZED'],
    [9, 'BLOCK_FINALIZED'],
    [10, 'BLOCK_SEALED'],
    [11, 'BLOCK_SEALED'],
  ])('with the sealed head at %s is %s', (sealed, status) => {
    expect(restBlock(encoded, sealed, { payload: false }).block_status).toBe(status);
  });

  /** The header of a block that has nothing, but for its time. */
  const headerAt = (timestamp: Timestamp | undefined) => {
    const bare = { id: idOf('a'), parentId: idOf('b'), height: 1, guarantees: [], signatures: [] };
    return restBlock(encodeBlock({ ...bare, timestamp }), undefined, { payload: false }).header;
  };

  it.each([
    [{ seconds: 0n, nanos: 0 }, '1970-01-01T00:00:00Z'],
    [{ seconds: 1_700_000_000n, nanos: 1 }, '2023-11-14T22:13:20.000000001Z'],
    [{ seconds: -1n, nanos: 500_000_000 }, '1969-12-31T23:59:59.5Z'],
    [{ seconds: -62_135_596_800n, nanos: 0 }, '0001-01-01T00:00:00Z'],
    [{ seconds: 253_402_300_799n, nanos: 999_999_999 }, '9999-12-31T23:59:59.999999999Z'],
    [undefined, '0001-01-01T00:00:00Z'],
  ])('writes the time %o as %s', (timestamp, text) => {
    expect(headerAt(timestamp).timestamp).toBe(text);
  });

  it('has an empty signature where the block carries none', () => {
    expect(headerAt(undefined).parent_voter_signature).toBe('');
  });
});

describe('selectFields', () => {
  const value = {
    ...{ id: 'a', header: { id: 'b', height: '1' }, list: [{ x: 1, y: 2 }, { x: 3 }], none: null },
    ...{ words: ['a', 'b'], deep: { er: [{ est: 1, other: 2 }] }, empty: [] },
  };

  it.each([
    [['id'], { id: 'a' }],
    [['header.height'], { header: { height: '1' } }],
    [['header', 'header.id'], { header: { id: 'b', height: '1' } }],
    [['list.x'], { list: [{ x: 1 }, { x: 3 }] }],
    // As on access nodes: an item without any of the fields takes its list with it.
    [['list.y', 'id'], { id: 'a' }],
    [['none'], { none: null }],
    [['deep.er.est'], { deep: { er: [{ est: 1 }] } }],
    [['words'], { words: ['a', 'b'] }],
  ])('%j keeps %j', (paths, kept) => {
    expect(selectFields(value, paths)).toEqual(kept);
    expect(selectFields([value, value], paths)).toEqual([kept, kept]);
  });

  it.each([
    [['nothing']],
    [['id.deeper', 'none.deeper', 'words.a']],
    [['deep.er.nothing', 'header.nothing', 'list.z', 'empty.nothing']],
  ])('%j keeps nothing: of an object an empty one, of a list an empty one', (paths) => {
    expect(selectFields(value, paths)).toEqual({});
    expect(selectFields([value], paths)).toEqual([]);
  });
});
