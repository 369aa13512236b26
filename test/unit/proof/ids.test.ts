import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { decodeBlock, decodeBlockMessage, encodeBlock, scanFullBlock } from '../../../src/flow/index.js';
import { WireError, WireWriter } from '../../../src/flow/index.js';
import { BlockHasher, BlockProver, checkStoredProof, preimagesOf } from '../../../src/proof/index.js';
import { readHeader } from '../../../src/proof/index.js';
import type { Proving } from '../../../src/proof/index.js';
import { fullBlockMessage } from '../../support/blockMessage.js';
import { merkleRoot, sealedBlock, type Json, type ReferenceBlock } from '../../support/proofReference.js';
import { blockVector, recordedBlocks } from '../../support/provenBlocks.js';

const CHAIN = 'flow-mainnet';
const vectors = { 'v0.42': blockVector('v0.42'), 'v0.51': blockVector('v0.51') };
const recorded = recordedBlocks();

const prove = (message: Uint8Array, chainId = CHAIN): Proving => new BlockProver({ chainId }).prove(message);

function proven(message: Uint8Array, chainId = CHAIN): Extract<Proving, { kind: 'proven' }> {
  const proving = prove(message, chainId);
  if (proving.kind !== 'proven') throw new Error(`not proven: ${JSON.stringify(proving)}`);
  return proving;
}

function root(ids: readonly Uint8Array[], hasher = new BlockHasher()): string | undefined {
  const target = Buffer.alloc(32);
  const texts = ids.map((id) => Buffer.from(id).toString('latin1'));
  return hasher.root(texts, target, 0) ? target.toString('hex') : undefined;
}

describe('Merkle roots', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  const withoutRoom = {
    Module: Object,
    Instance: function () {
      throw new RangeError('WebAssembly.Instance(): Out of memory');
    },
  };
  it.each<[keyof typeof vectors, string, stubs?: object]>([
    ['v0.42', ''],
    ['v0.51', ''],
    ['v0.51', ', where there is no WebAssembly', { WebAssembly: undefined }],
    ['v0.51', ', where there is no room for the memory of WebAssembly', { WebAssembly: withoutRoom }],
  ])('are those of flow-go %s%s', (version, _, stubs = {}) => {
    for (const [name, stub] of Object.entries(stubs)) vi.stubGlobal(name, stub);
    const { guaranteeIDs, merkle } = vectors[version];
    const ids = guaranteeIDs.map((id) => Buffer.from(id, 'hex'));
    const roots = Object.keys(merkle).map((count) => root(ids.slice(0, Number(count))));
    expect(roots).toEqual(Object.values(merkle));
  });

  it('are those of a trie of nodes, over another BLAKE2b, wherever ids part', () => {
    const id = fc.uint8Array({ minLength: 32, maxLength: 32 });
    /** Ids that have much in common: a few bits of one id turned. */
    const near = fc
      .tuple(id, fc.array(fc.array(fc.nat(255), { minLength: 1, maxLength: 3 }), { maxLength: 12 }))
      .map(([first, turns]) => [
        first,
        ...turns.map((bits) => {
          const turned = Buffer.from(first);
          for (const bit of new Set(bits)) turned[bit >> 3] = (turned[bit >> 3] ?? 0) ^ (0x80 >> (bit & 7));
          return turned;
        }),
      ]);
    const distinct = (ids: readonly Uint8Array[]): Uint8Array[] => [
      ...new Map(ids.map((each) => [Buffer.from(each).toString('hex'), each])).values(),
    ];
    fc.assert(
      fc.property(fc.oneof(near, fc.array(id, { maxLength: 100 })).map(distinct), (ids) => {
        expect(root(ids)).toBe(merkleRoot(ids).toString('hex'));
      }),
      { numRuns: 30 },
    );
  });

  it('depend on nothing that the hasher did before', () => {
    const hasher = new BlockHasher();
    for (const count of [70, 3, 0, 3_000, 1]) {
      const ids = Array.from({ length: count }, (_, index) => Buffer.alloc(32, `${count}.${index}`));
      expect(root(ids, hasher)).toBe(merkleRoot(ids).toString('hex'));
    }
  });

  it('are refused for ids that are there twice, or of another size', () => {
    const [a, b] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
    expect(root([a, b, a])).toBeUndefined();
    expect(root([a, b.subarray(1)])).toBeUndefined();
    expect(root([a.subarray(1), Buffer.concat([b, b.subarray(31)])])).toBeUndefined();
  });
});

describe('a block in full form', () => {
  it('of flow-go v0.42 or v0.51 is proven, and gives the light form that its nodes give', () => {
    const { blockMessageFull, blockMessageLight, blockID } = vectors['v0.51'];
    const { form, block } = proven(Buffer.from(blockMessageFull, 'base64'));
    expect(form).toBe('H8P8');
    expect(block.id).toBe(blockID);
    expect(block).toEqual(decodeBlockMessage(Buffer.from(blockMessageLight, 'base64')));
    const { block: older, blockID: id } = vectors['v0.42'];
    expect(proven(fullBlockMessage(older))).toMatchObject({ form: 'H5P7', block: { id } });
  });

  it('of a network is proven, and gives the light form that its nodes give', () => {
    const prover = new BlockProver({ chainId: 'flow-localnet' });
    for (const { height, full, light } of recorded) {
      const proving = prover.prove(full);
      expect(proving).toMatchObject({ kind: 'proven', form: 'H8P8', block: { height } });
      if (proving.kind === 'proven' && light !== undefined) expect(proving.block.encoded).toEqual(light);
    }
    const late = recorded.filter(({ full }) => scanFullBlock(full).header?.lastViewTC !== undefined);
    expect(late.length).toBeGreaterThan(5);
  });

  const { block: newest, resultIDs } = vectors['v0.51'];
  const voters = { ParentVoterIDs: [newest.header['ParentID'], newest.header['ProposerID']] };
  const ofForm = (form: string, block: ReferenceBlock = newest): ReferenceBlock =>
    sealedBlock(
      form,
      { ...block, header: form.startsWith('H1') ? { ...block.header, ...voters } : block.header },
      resultIDs,
    );

  it('is proven whatever its form is, in whichever order they come', () => {
    const prover = new BlockProver({ chainId: CHAIN });
    for (const form of ['H1P1', 'H8P8', 'H5P1', 'H5P7', 'H3P1', 'H5P8', 'H8P8']) {
      const { header, payload } = ofForm(form);
      const proving = prover.prove(fullBlockMessage({ header, payload }));
      if (proving.kind !== 'proven') throw new Error(`${form} is not proven`);
      expect(proving.form).toBe(form);
      const stored = checkStoredProof(proving.block.encoded, proving.proof, CHAIN);
      expect(stored).toEqual(readHeader(proving.block.encoded, proving.proof, CHAIN));
      const { guarantees } = preimagesOf(proving.block.encoded, proving.proof, CHAIN, new BlockHasher());
      if (!form.endsWith('P8'))
        expect(guarantees.map((id) => id.toString('hex'))).toEqual(proving.block.collectionIds);
      expect(stored).toMatchObject({ form, id: header['ID'], view: header['View'], chainId: CHAIN });
      expect(stored?.parentVoterIds).toHaveLength(form === 'H1P1' ? 2 : 0);
      expect(stored?.parentVoterIndices).toHaveLength(form === 'H1P1' ? 0 : 12);
    }
  });

  it('is of unknown form when its header hashes to another id', () => {
    const { header, payload } = newest;
    const message = fullBlockMessage({ header: { ...header, View: Number(header['View']) + 1 }, payload });
    expect(prove(message)).toEqual({ kind: 'unknown_form', block: decodeBlockMessage(message) });
  });

  it('cannot be proven without a header', () => {
    const { header, payload } = newest;
    const light = Buffer.from(vectors['v0.51'].blockMessageLight, 'base64');
    for (const message of [light, fullBlockMessage({ header: { ...header, PayloadHash: '' }, payload })])
      expect(prove(message)).toEqual({ kind: 'without_header', block: decodeBlockMessage(message) });
  });

  const payload = newest.payload as Readonly<Record<string, readonly Json[]>>;
  const changed = (kind: string, change: Json): ReferenceBlock => {
    const [first, ...others] = payload[kind] ?? [];
    return { header: newest.header, payload: { ...payload, [kind]: [{ ...first, ...change }, ...others] } };
  };
  const [guarantee] = payload['Guarantees'] ?? [];
  const Timestamp = '2025-10-22T12:59:59.123000001Z';
  const finer = sealedBlock('H8P8', { ...newest, header: { ...newest.header, Timestamp } }, resultIDs);
  const other = 'ab'.repeat(32);

  it.each<[string, string, ReferenceBlock, chainId?: string]>([
    ['whose guarantee its header does not cover', 'payload', changed('Guarantees', { CollectionID: other })],
    ['whose reference block', 'payload', changed('Guarantees', { ReferenceBlockID: other })],
    ['whose seal', 'payload', changed('Seals', { FinalState: other })],
    ['whose receipt', 'payload', changed('Receipts', { ExecutorID: other })],
    ['whose result', 'payload', changed('Receipts', { ResultID: other })],
    ['whose protocol state', 'payload', { ...newest, payload: { ...payload, ProtocolStateID: other } }],
    ['with a guarantee less', 'payload', { ...newest, payload: { ...payload, Guarantees: [guarantee] } }],
    ['of another chain', 'chain', newest, 'flow-testnet'],
    [
      'with one twice',
      'ambiguous',
      { ...newest, payload: { ...payload, Guarantees: [guarantee, guarantee] } },
    ],
    ['whose time is finer than what is hashed', 'ambiguous', { header: finer.header, payload }],
  ])('is refused %s: %s', (_, reason, block, chainId) => {
    expect(prove(fullBlockMessage(block), chainId)).toMatchObject({ kind: 'refused', reason });
  });

  it('is refused with copies that differ', () => {
    const message = fullBlockMessage(newest);
    const block = scanFullBlock(message);
    const [signature, ...noOther] = block.signatures;
    const copies = {
      id: [block.id, 'id'],
      headerId: [block.header?.id, 'id'],
      parentId: [block.parentId, 'copy'],
      signature: [signature, 'copy'],
      guaranteeSignature: [block.guarantees[0]?.signatures[0], 'copy'],
    } as const;
    expect(noOther).toEqual([]);
    for (const [span, reason] of Object.values(copies)) {
      const turned = Buffer.from(message);
      turned.writeUInt8(turned.readUInt8(span?.start ?? -1) ^ 1, span?.start);
      expect(prove(turned)).toMatchObject({ kind: 'refused', reason });
    }
  });

  it('with a singular field twice is a wire error', () => {
    const message = fullBlockMessage(newest);
    const id = message.subarray(0, 34);
    const height = new WireWriter().number(3, 7).finish();
    for (const again of [id, height]) expect(() => prove(Buffer.concat([message, again]))).toThrow(WireError);
  });

  it('is the same whatever copies a node leaves out', () => {
    const message = fullBlockMessage(newest);
    const { guarantees, signatures } = scanFullBlock(message);
    const whole = proven(message);
    const isCopy = [guarantees[0]?.signatures[0], signatures[0]];
    for (const span of isCopy) {
      // The tag becomes that of a field that nobody knows: one byte before the length, which takes one or two.
      const turned = Buffer.from(message);
      const lengthBytes = (span?.length ?? 0) < 0x80 ? 1 : 2;
      const at = (span?.start ?? 0) - lengthBytes - 1;
      turned.writeUInt8(0x7a, at);
      expect(proven(turned)).toEqual(whole);
    }
  });
});

const { block, resultIDs } = vectors['v0.51'];
const receipts = block.payload['Receipts'] as readonly Json[];
const backwards = { ...block, payload: { ...block.payload, Receipts: receipts.toReversed() } };
const sealed = sealedBlock('H8P8', backwards, resultIDs);

/** The block with the results that flow-go sent, each changed by `change`. */
const withResults = (change: (result: Buffer) => Buffer): Buffer => {
  const { bytes, results } = scanFullBlock(Buffer.from(vectors['v0.51'].blockMessageFull, 'base64'));
  return Buffer.concat([
    fullBlockMessage({ ...sealed, payload: { ...sealed.payload, Results: [] } }),
    ...results.map(({ start, length }) =>
      new WireWriter().element(9, change(Buffer.from(bytes.subarray(start, start + length)))).finish(),
    ),
  ]);
};

it('ids of results are hashed where no order of the receipts gives them, and refused where the results do not hash to what a receipt says', () => {
  expect(prove(withResults((result) => result))).toMatchObject({ kind: 'proven', form: 'H8P8' });
  const changed = withResults((result) => {
    // Within the id of the result before, the first field.
    result.writeUInt8(result.readUInt8(10) ^ 1, 10);
    return result;
  });
  expect(prove(changed)).toMatchObject({ kind: 'refused', reason: 'payload' });
});

it('ids of results are found whichever of the receipts they are of', () => {
  const ids = Array.from({ length: 6 }, (_, index) => Buffer.alloc(32, `result ${index}`).toString('hex'));
  const Receipts = ids.map((ResultID) => ({ ...receipts[0], ResultID }));
  fc.assert(
    fc.property(fc.subarray(ids), (held) => {
      // Of a result of no bytes nothing can be hashed.
      const payload = { ...block.payload, Receipts, Results: held.map(() => ({})) };
      expect(prove(fullBlockMessage(sealedBlock('H8P8', { ...block, payload }, held))).kind).toBe('proven');
    }),
    { numRuns: 30 },
  );
});

it('ids of results are tried in a bounded number of ways', () => {
  const many = Array.from({ length: 40 }, (_, index) => ({
    ...receipts[0],
    ResultID: Buffer.alloc(32, `result ${index}`).toString('hex'),
  }));
  const results = Array.from({ length: 20 }, () => ({}));
  const payload = { ...block.payload, Receipts: many, Results: results };
  // A result is no message: none is looked at once one is of no receipt.
  const message = Buffer.concat([fullBlockMessage({ ...block, payload }), Buffer.from('4a020a09', 'hex')]);
  expect(prove(message)).toMatchObject({ kind: 'refused', reason: 'payload' });
});

it('a stored proof does not hold once its block has a guarantee twice, or not the certificate for its parent', () => {
  const { block, proof } = proven(fullBlockMessage(vectors['v0.51'].block));
  const light = decodeBlock(block.encoded);
  const changes = [{ guarantees: [...light.guarantees, light.guarantees[0]!] }, { signatures: [] }];
  for (const change of changes)
    expect(checkStoredProof(encodeBlock({ ...light, ...change }), proof, CHAIN)).toBeUndefined();
  expect(
    new BlockProver({ chainId: CHAIN }).proveStored(encodeBlock({ ...light, signatures: [] }), proof),
  ).toMatchObject({ kind: 'refused', reason: 'id' });
});

it('a stored proof holds for its block alone', () => {
  const proofs = recorded.map(({ full }) => proven(full, 'flow-localnet'));
  for (const [index, { block, proof }] of proofs.entries()) {
    expect(checkStoredProof(block.encoded, proof, 'flow-localnet')?.id).toBe(block.id);
    const next = proofs[(index + 1) % proofs.length];
    expect(checkStoredProof(block.encoded, next?.proof ?? proof, 'flow-localnet')).toBeUndefined();
    expect(checkStoredProof(block.encoded, proof, 'flow-mainnet')).toBeUndefined();
  }
});

it('a stored proof gives back every field of the header', () => {
  const { full } = recorded.find(({ height }) => height === 99) ?? {};
  const { block, proof } = proven(full ?? Buffer.alloc(0), 'flow-localnet');
  const { header, bytes, protocolStateId } = scanFullBlock(full ?? Buffer.alloc(0));
  const sent = (span: { start: number; length: number } | undefined): Buffer =>
    bytes.subarray(span?.start, (span?.start ?? 0) + (span?.length ?? 0));
  expect(readHeader(block.encoded, proof, 'flow-localnet')).toMatchObject({
    ...{ form: 'H8P8', chainId: 'flow-localnet', id: block.id, parentId: block.parentId, height: 99 },
    ...{ view: header?.view, parentView: header?.parentView },
    payloadHash: sent(header?.payloadHash),
    proposerId: sent(header?.proposerId),
    parentVoterIndices: sent(header?.parentVoterIndices),
    parentVoterSigData: sent(header?.parentVoterSigData),
    protocolStateId: sent(protocolStateId),
  });
  const { lastViewTC } = readHeader(block.encoded, proof, 'flow-localnet');
  expect(bytes.includes(Buffer.from(lastViewTC ?? 'none'))).toBe(true);
});

// Other blocks, and proofs that are stored, are changed at random by the targets of test/fuzz/proofs.ts.
it('a block with one bit turned is not proven, or the same, where the bit is one that no id binds, and none of what is stored', () => {
  const prover = new BlockProver({ chainId: 'flow-localnet' });
  const block = recorded.find(({ height }) => height === 1318)?.full ?? Buffer.alloc(0);
  const whole = prover.prove(block);
  let same = 0;
  for (let bit = 0; bit < 8 * block.length; bit++) {
    const turned = Buffer.from(block);
    turned.writeUInt8(turned.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    try {
      const proving = prover.prove(turned);
      if (proving.kind !== 'proven') continue;
      if (!isDeepStrictEqual(proving, whole)) expect(proving).toEqual(whole);
      same += 1;
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
    }
  }
  expect(same).toBeGreaterThan(0);
});

const prover = new BlockProver({ chainId: 'flow-localnet' });
const stored = recorded.flatMap(({ full }) => {
  const whole = prover.prove(full);
  if (whole.kind !== 'proven') return [];
  // An index keeps only the root of the seals.
  const proving = { ...whole, sealedIds: undefined };
  return [{ light: whole.block.encoded, proof: whole.proof, proving }];
});

it('a block of an index, with its proof is proven to be what the full block was, loses what nothing covers, and is not proven without a proof, or with one of a later version', () => {
  expect(stored.length).toBeGreaterThan(30);
  for (const { light, proof, proving } of stored) expect(prover.proveStored(light, proof)).toEqual(proving);
  const [{ light, proof, proving } = expect.unreachable('no block')] = stored;
  const field = (tag: number) => Buffer.from([tag, 1, 65]);
  const more = prover.proveStored(Buffer.concat([light, field(0x7a)]), Buffer.concat([proof, field(0x72)]));
  expect(more).toEqual(proving);
  const block = decodeBlockMessage(light);
  expect(prover.proveStored(light, new Uint8Array())).toEqual({ kind: 'without_header', block });
  // The form is the first field.
  for (const later of [Buffer.from([2, ...proof.subarray(1)]), Buffer.from([1, 8, 99, ...proof.subarray(3)])])
    expect(prover.proveStored(light, later)).toEqual({ kind: 'unknown_form', block });
});
