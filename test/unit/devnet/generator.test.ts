import { sha3_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ChainGenerator, oddKinds, profiles } from '../../../src/devnet/index.js';
import type { GeneratedBlock, OddKind } from '../../../src/devnet/index.js';
import { decodeTransaction, identifierBytes, type Transaction } from '../../../src/flow/index.js';
import { BlockProver } from '../../../src/proof/index.js';

const HEIGHTS = 700;

function blocks(generator: ChainGenerator, count = HEIGHTS): GeneratedBlock[] {
  return Array.from({ length: count }, (_, index) => generator.block(generator.rootHeight + index));
}

/** A copy without the megabyte-sized collections, which would make comparing slow. */
const mixed = new ChainGenerator({ profile: { odd: { ...profiles.mixed.odd, bigCollection: 0 } } });
const mixedBlocks = blocks(mixed);

it('a seeded chain is the same on every machine: these ids were computed once and must never change', () => {
  const generator = new ChainGenerator({ seed: 1, rootHeight: 100 });
  const { collections, encoded } = generator.block(164);
  expect([generator.sporkId, generator.blockId(100), generator.blockId(5_000_000_000)]).toEqual([
    '7a3f4a67fa54cb2b4bb6bcad61ed097c724fabc4eb22403820622901b08960ba',
    '4e2dc14e168fb49d046018fac41495651340e6cebb7a93fdc672cafd200823e1',
    '1fac1a2a7a602853f5f924e1035b2246dd095a6a478b63f297f3119b18ec5be7',
  ]);
  expect(collections.map(({ id }) => id.slice(0, 16))).toEqual(['23404183aa3243a1', '27c7e90db494d800']);
  expect(Buffer.from(sha3_256(encoded)).toString('hex')).toBe(
    '5c58bc8a681122bce73e8c1b7936d869fddd7d665a0d604719119046ed93e6ab',
  );
});

it('a seeded chain gives the same bytes whatever was asked for before', () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.nat(1_000_000_000),
      fc.array(fc.nat(12), { maxLength: 5 }),
      fc.boolean(),
      (seed, offset, others, hashedIds) => {
        const options = {
          ...{ seed, hashedIds },
          rootHeight: offset,
          profile: { odd: { repeatedCollection: 2, multiSign: 3 } },
        };
        const height = offset + 7;
        const fresh = new ChainGenerator(options).block(height);
        const used = new ChainGenerator(options);
        for (const other of others) used.block(offset + other);
        expect(used.block(height)).toEqual(fresh);
      },
    ),
    { numRuns: 10 },
  );
});

it('a seeded chain finds the height of its own ids, at any height, and of no others', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), fc.nat(31), fc.integer({ min: 1, max: 255 }), (height, place, change) => {
      const id = mixed.ids.idAt(height);
      expect(mixed.ids.locate(id)).toEqual({ height, fork: 'chain' });
      expect(mixed.ids.locate(mixed.ids.idAt(height, 'orphan'))).toEqual({ height, fork: 'orphan' });
      id[place] = (id[place] ?? 0) ^ change;
      expect(mixed.ids.locate(id)).toBeUndefined();
    }),
  );
});

const blocksOf = (kind: OddKind): GeneratedBlock[] => mixedBlocks.filter(({ odd }) => odd.includes(kind));

it.each(oddKinds.filter((kind) => kind !== 'bigCollection'))(
  'what is odd: %s comes once in N heights',
  (kind) => {
    const every = mixed.profile.odd[kind] ?? 0;
    expect(every).toBeGreaterThan(0);
    const heights = blocksOf(kind).map(({ height }) => height);
    expect(heights.length).toBeGreaterThanOrEqual(Math.max(1, Math.floor(HEIGHTS / every) - 1));
    for (const [index, height] of heights.slice(1).entries())
      expect(height - (heights[index] ?? 0)).toBe(every);
  },
);

const signatures = (tx: Transaction) => [...tx.payloadSignatures, ...tx.envelopeSignatures];
const isOf: Partial<Record<OddKind, (tx: Transaction) => boolean>> = {
  newlineArguments: (tx) => tx.arguments.length > 0 && tx.arguments.every((each) => each.at(-1) === 0x0a),
  extensionData: (tx) => signatures(tx).some(({ extensionData }) => extensionData.length > 1),
  plainExtensionData: (tx) =>
    signatures(tx).some(({ extensionData }) => Buffer.alloc(1).equals(extensionData)),
  multiSign: (tx) => tx.payloadSignatures.length === 3 && tx.authorizers.length >= 3,
  zeroReferenceBlock: (tx) => Buffer.alloc(32).equals(tx.referenceBlockId),
  unknownSigner: (tx) => {
    const known = [tx.proposalKey?.address ?? tx.payer, tx.payer, ...tx.authorizers];
    return signatures(tx).some(({ address }) => !known.some((one) => Buffer.from(one).equals(address)));
  },
  unusualAddress: (tx) => tx.payer.length === 1 && tx.authorizers.some(({ length }) => length === 10),
  bareTransaction: (tx) => tx.script.length + tx.arguments.length + tx.authorizers.length === 0,
  largeNumbers: (tx) => tx.gasLimit === 2n ** 64n - 1n && tx.proposalKey?.keyId === 2 ** 32 - 1,
};

it.each(Object.keys(isOf) as OddKind[])(
  'what is odd: %s is in the first collection of its blocks',
  (kind) => {
    for (const block of blocksOf(kind)) {
      const first = block.collections[0]?.transactions.map((wire) => decodeTransaction(wire)) ?? [];
      const count = first.filter((tx) => isOf[kind]?.(tx)).length;
      // The same transaction may be bare as well: then it has no arguments that could end in a newline.
      if (kind === 'newlineArguments' && block.odd.includes('bareTransaction')) expect(count).toBeLessThan(2);
      else expect(count).toBe(1);
    }
  },
);

const chain = new ChainGenerator({ hashedIds: true, seed: 7, rootHeight: 500 });
const prover = new BlockProver({ chainId: chain.chainId });
const full = (block: GeneratedBlock): Buffer =>
  Buffer.concat([block.encoded, block.hashed?.extras ?? Buffer.alloc(0)]);

it('a chain of hashed ids finds a block by its id, an orphan as well, which is proven too', () => {
  const orphan = chain.block(530, 'orphan');
  expect(chain.sporkId).toBe(chain.blockId(500));
  expect(orphan.id).not.toBe(chain.blockId(530));
  expect(orphan.parentId).toBe(chain.blockId(529));
  expect(prover.prove(full(orphan)).kind).toBe('proven');
  expect(chain.ids.locate(identifierBytes(chain.blockId(530)))).toEqual({ height: 530, fork: 'chain' });
  chain.ids.idAt(530, 'orphan');
  expect(chain.ids.locate(identifierBytes(orphan.id))).toEqual({ height: 530, fork: 'orphan' });
  expect(chain.ids.locate(Buffer.alloc(32))).toBeUndefined();
});
