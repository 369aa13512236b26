import { RLP } from '@ethereumjs/rlp';
import { sha3_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ChainGenerator,
  type GeneratedBlock,
  type OddKind,
  oddKinds,
  profiles,
} from '../../../src/devnet/index.js';
import {
  decodeBlock,
  decodeTransaction,
  encodeBlock,
  encodeTransaction,
  identifierBytes,
  type Identifier,
  toIdentifier,
  type Transaction,
  type TransactionSignature,
  verifyCollection,
  ZERO_ID,
} from '../../../src/flow/index.js';
import {
  BlockProver,
  type Committee,
  loadCertificates,
  provenFinal,
  readHeader,
  type StoredHeader,
} from '../../../src/proof/index.js';
import { certificateIn } from '../../../src/proof/certificates/provenFinal.js';
import { readProtocolState } from '../../../src/proof/committee/protocolState.js';
import { type ProtocolStateEntry, recordedSnapshot } from '../../support/proofData.js';

const { prepareCommittee, verifyCertificate } = await loadCertificates();

const HEIGHTS = 700;

function blocks(generator: ChainGenerator, count = HEIGHTS): GeneratedBlock[] {
  return Array.from({ length: count }, (_, index) => generator.block(generator.rootHeight + index));
}

/** A copy without the megabyte-sized collections, which would make comparing slow. */
const mixed = new ChainGenerator({ profile: { odd: { ...profiles.mixed.odd, bigCollection: 0 } } });
const mixedBlocks = blocks(mixed);

/** RLP and SHA3 by other hands: the id of a transaction as the protocol defines it. */
function oracleTransactionId(wire: Uint8Array): string {
  const tx = decodeTransaction(wire);
  const integer = (value: number | bigint): Uint8Array => {
    const hex = BigInt(value).toString(16);
    return value === 0 || value === 0n
      ? Buffer.alloc(0)
      : Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  };
  const address = (bytes: Uint8Array): Buffer => {
    const padded = Buffer.concat([Buffer.alloc(8), bytes]);
    return padded.subarray(padded.length - 8);
  };
  const reference = Buffer.alloc(32);
  reference.set(tx.referenceBlockId.subarray(0, 32));
  const isZero = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0);
  const proposer = tx.proposalKey?.address ?? Buffer.alloc(0);
  const signers: string[] = [];
  for (const candidate of [proposer, tx.payer, ...tx.authorizers]) {
    const hex = address(candidate).toString('hex');
    if (!signers.includes(hex) && (tx.authorizers.includes(candidate) || !isZero(candidate)))
      signers.push(hex);
  }
  const signature = (from: TransactionSignature): Uint8Array[] => {
    const index = signers.indexOf(address(from.address).toString('hex'));
    const items = [
      index < 0 ? Buffer.alloc(8, 0xff) : integer(index),
      integer(from.keyId),
      Buffer.from(from.signature),
    ];
    const { extensionData } = from;
    if (extensionData.length > 1 || (extensionData.length === 1 && extensionData[0] !== 0)) {
      items.push(Buffer.from(extensionData));
    }
    return items;
  };
  const payload = [
    Buffer.from(tx.script),
    tx.arguments.map((argument) => Buffer.from(argument)),
    reference,
    integer(tx.gasLimit),
    address(proposer),
    integer(tx.proposalKey?.keyId ?? 0),
    integer(tx.proposalKey?.sequenceNumber ?? 0n),
    address(tx.payer),
    tx.authorizers.map(address),
  ];
  const rlp = RLP.encode([
    payload,
    tx.payloadSignatures.map(signature),
    tx.envelopeSignatures.map(signature),
  ]);
  return Buffer.from(sha3_256(rlp)).toString('hex');
}

function oracleCollectionId(ids: Buffer): string {
  const list: Buffer[] = [];
  for (let at = 0; at < ids.length; at += 32) list.push(ids.subarray(at, at + 32));
  return Buffer.from(sha3_256(RLP.encode([list]))).toString('hex');
}

describe('a seeded chain', () => {
  it('is the same on every machine: these ids were computed once and must never change', () => {
    const generator = new ChainGenerator({ seed: 1, rootHeight: 100 });
    expect(generator.sporkId).toMatchInlineSnapshot(
      `"7a3f4a67fa54cb2b4bb6bcad61ed097c724fabc4eb22403820622901b08960ba"`,
    );
    expect(generator.blockId(100)).toMatchInlineSnapshot(
      `"4e2dc14e168fb49d046018fac41495651340e6cebb7a93fdc672cafd200823e1"`,
    );
    expect(generator.blockId(5_000_000_000)).toMatchInlineSnapshot(
      `"1fac1a2a7a602853f5f924e1035b2246dd095a6a478b63f297f3119b18ec5be7"`,
    );
    const block = generator.block(164);
    expect(block.collections.map(({ id }) => id.slice(0, 16))).toMatchInlineSnapshot(`
      [
        "23404183aa3243a1",
        "27c7e90db494d800",
      ]
    `);
    expect(Buffer.from(sha3_256(block.encoded)).toString('hex')).toMatchInlineSnapshot(
      `"5c58bc8a681122bce73e8c1b7936d869fddd7d665a0d604719119046ed93e6ab"`,
    );
  });

  it('gives the same bytes whatever was asked for before', () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.nat(1_000_000_000),
        fc.array(fc.nat(50), { maxLength: 5 }),
        (seed, offset, others) => {
          const options = {
            seed,
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

  it('differs by seed, by chain and, in its content, by profile', () => {
    const id = new ChainGenerator({ seed: 1 }).blockId(5);
    expect(new ChainGenerator({ seed: 2 }).blockId(5)).not.toBe(id);
    expect(new ChainGenerator({ seed: 1, chainId: 'flow-testnet' }).blockId(5)).not.toBe(id);
  });

  it('links every block to the one below, and the root to what it is told', () => {
    expect(mixedBlocks[0]?.parentId).toBe(ZERO_ID);
    for (const [index, block] of mixedBlocks.entries()) {
      if (index > 0) expect(block.parentId).toBe(mixedBlocks[index - 1]?.id);
      expect(block.height).toBe(index);
    }
    const parent = 'ab'.repeat(32) as Identifier;
    const continued = new ChainGenerator({ rootHeight: 10, rootParentId: parent });
    expect(continued.block(10).parentId).toBe(parent);
    expect(continued.block(11).parentId).toBe(continued.blockId(10));
  });

  it('has an orphan beside each block: another id, the same parent and collections', () => {
    const block = mixed.block(41);
    const orphan = mixed.block(41, 'orphan');
    expect(orphan.id).not.toBe(block.id);
    expect(orphan.parentId).toBe(block.parentId);
    expect(orphan.collections.map(({ id }) => id)).toEqual(block.collections.map(({ id }) => id));
  });

  it('finds the height of its own ids, at any height, and of no others', () => {
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

  it('lets time pass at the same pace for every block', () => {
    const generator = new ChainGenerator({ profile: { blockTimeMs: 800 } });
    const ms = (height: number): bigint => {
      const { seconds, nanos } = generator.block(height).timestamp;
      return seconds * 1000n + BigInt(nanos / 1_000_000);
    };
    expect(ms(3) - ms(2)).toBe(800n);
    expect(ms(1_000_002) - ms(2)).toBe(800_000_000n);
  });

  it('begins with a root block that holds nothing', () => {
    expect(mixedBlocks[0]?.collections).toEqual([]);
    expect(mixed.systemTransactions(0)).toEqual([]);
  });
});

describe('ids and encodings', () => {
  it('are canonical: decoding and encoding again changes nothing', () => {
    for (const block of mixedBlocks) {
      expect(Buffer.from(encodeBlock(decodeBlock(block.encoded))).equals(block.encoded)).toBe(true);
      for (const wire of block.collections.flatMap(({ transactions }) => transactions)) {
        expect(encodeTransaction(decodeTransaction(wire)).equals(wire)).toBe(true);
      }
    }
  });

  it('hash to what the block guarantees, by an independent RLP and SHA3', () => {
    for (const { collections } of mixedBlocks) {
      for (const { id, transactions, transactionIds } of collections) {
        expect(transactions.map(oracleTransactionId).join('')).toBe(transactionIds.toString('hex'));
        expect(oracleCollectionId(transactionIds)).toBe(id);
      }
    }
  });
});

describe('what is odd', () => {
  const transactionsOf = (kind: OddKind): Transaction[] =>
    mixedBlocks
      .filter(({ odd }) => odd.includes(kind))
      .flatMap(({ collections }) => collections[0]?.transactions ?? [])
      .map(decodeTransaction);
  const blocksOf = (kind: OddKind): GeneratedBlock[] => mixedBlocks.filter(({ odd }) => odd.includes(kind));

  it.each(oddKinds.filter((kind) => kind !== 'bigCollection'))(
    '%s comes exactly once in N heights',
    (kind) => {
      const every = mixed.profile.odd[kind] ?? 0;
      expect(every).toBeGreaterThan(0);
      const heights = blocksOf(kind).map(({ height }) => height);
      expect(heights.length).toBeGreaterThanOrEqual(Math.floor(HEIGHTS / every) - 1);
      expect(heights.length).toBeGreaterThan(0);
      for (const [index, height] of heights.entries()) {
        if (index > 0) expect(height - (heights[index - 1] ?? 0)).toBe(every);
      }
    },
  );

  const signatures = (tx: Transaction): TransactionSignature[] => [
    ...tx.payloadSignatures,
    ...tx.envelopeSignatures,
  ];
  const isOf: Partial<Record<OddKind, (tx: Transaction) => boolean>> = {
    newlineArguments: (tx) =>
      tx.arguments.length > 0 && tx.arguments.every((argument) => argument.at(-1) === 0x0a),
    extensionData: (tx) => signatures(tx).some(({ extensionData }) => extensionData.length > 1),
    plainExtensionData: (tx) =>
      signatures(tx).some(({ extensionData }) => Buffer.alloc(1).equals(extensionData)),
    multiSign: (tx) => tx.payloadSignatures.length === 3 && tx.authorizers.length >= 3,
    zeroReferenceBlock: (tx) => Buffer.alloc(32).equals(tx.referenceBlockId),
    unknownSigner: (tx) => {
      const known = [tx.proposalKey?.address ?? tx.payer, tx.payer, ...tx.authorizers].map((one) =>
        Buffer.from(one),
      );
      return signatures(tx).some(({ address }) => !known.some((one) => one.equals(address)));
    },
    unusualAddress: (tx) => tx.payer.length === 1 && tx.authorizers.some(({ length }) => length === 10),
    bareTransaction: (tx) =>
      tx.script.length === 0 && tx.arguments.length === 0 && tx.authorizers.length === 0,
    largeNumbers: (tx) => tx.gasLimit === 2n ** 64n - 1n && tx.proposalKey?.keyId === 2 ** 32 - 1,
  };

  it.each(Object.keys(isOf) as OddKind[])(
    '%s is in the first collection of each of its blocks, and nowhere else',
    (kind) => {
      for (const block of blocksOf(kind)) {
        const first = block.collections[0]?.transactions.map(decodeTransaction) ?? [];
        const count = first.filter((tx) => isOf[kind]?.(tx)).length;
        // The same transaction may be bare as well: then it has no arguments that could end in a newline.
        if (kind === 'newlineArguments' && block.odd.includes('bareTransaction'))
          expect(count).toBeLessThan(2);
        else expect(count).toBe(1);
      }
      const plain = mixedBlocks
        .filter(({ odd, height }) => !odd.includes(kind) && !mixed.oddAt(height - 1).includes(kind))
        .flatMap(({ collections }) => collections.flatMap(({ transactions }) => transactions));
      expect(plain.length).toBeGreaterThan(100);
      expect(plain.map(decodeTransaction).filter((tx) => isOf[kind]?.(tx))).toEqual([]);
    },
  );

  it('arguments of all other transactions are JSON without a newline', () => {
    expect(transactionsOf('twinCollection').length).toBeGreaterThan(0);
    for (const tx of transactionsOf('twinCollection')) {
      for (const argument of tx.arguments) {
        expect(JSON.parse(Buffer.from(argument).toString('utf8'))).toHaveProperty('type');
      }
    }
  });

  it('full collections hold 100 transactions, and none holds more', () => {
    expect(
      blocksOf('fullCollection').map(({ collections }) => collections[0]?.transactions.length),
    ).toContain(100);
    const most = Math.max(
      ...mixedBlocks.flatMap(({ collections }) => collections.map(({ transactions }) => transactions.length)),
    );
    expect(most).toBe(100);
  });

  it('repeats collections: of the block below, and within a block', () => {
    for (const block of blocksOf('repeatedCollection')) {
      const below = mixed.block(block.height - 1).collections[0];
      expect(below).toBeDefined();
      expect(block.collections.map(({ id }) => id)).toContain(below?.id);
    }
    for (const { collections } of blocksOf('twinCollection')) {
      expect(collections.filter(({ id }) => id === collections[0]?.id)).toHaveLength(2);
    }
  });

  it('repeats transactions: of another collection, and of the block below', () => {
    const idsOf = ({ transactionIds }: { transactionIds: Buffer }): string =>
      transactionIds.subarray(0, 32).toString('hex');
    for (const { collections } of blocksOf('repeatedTransaction')) {
      const first = collections[0];
      expect(
        collections
          .slice(1)
          .some((other) => first !== undefined && other.id !== first.id && idsOf(other) === idsOf(first)),
      ).toBe(true);
    }
    for (const { collections, height } of blocksOf('crossBlockTransaction')) {
      const below = mixed.block(height - 1).collections[0];
      expect(collections.some((other) => below !== undefined && idsOf(other) === idsOf(below))).toBe(true);
    }
  });

  it('knows the empty collection', () => {
    const empty = blocksOf('emptyCollection').map(({ collections }) => collections.at(-1));
    expect(empty.length).toBeGreaterThan(0);
    for (const collection of empty) {
      expect(collection?.transactions).toEqual([]);
      expect(collection?.id).toBe(oracleCollectionId(Buffer.alloc(0)));
    }
  });

  it('makes collections near the caps', () => {
    const generator = new ChainGenerator({ profile: { odd: { bigCollection: 3 } } });
    const big = blocks(generator, 5).flatMap(({ odd, collections }) =>
      odd.includes('bigCollection') ? [collections[0]] : [],
    );
    expect(big.length).toBeGreaterThan(0);
    for (const collection of big) {
      expect(collection?.encoded.length).toBeGreaterThan(2_700_000);
      expect(collection?.encoded.length).toBeLessThan(3_000_000);
      expect(verifyCollection(collection?.id ?? ZERO_ID, collection?.transactions ?? []).id).toBe(
        collection?.id,
      );
    }
  });
});

describe('profiles', () => {
  it('empty holds nothing, dense the same number everywhere', () => {
    expect(
      blocks(new ChainGenerator({ profile: 'empty' }), 50).flatMap(({ collections }) => collections),
    ).toEqual([]);
    for (const { collections } of blocks(new ChainGenerator({ profile: 'dense' }), 20).slice(1)) {
      expect(collections.map(({ transactions }) => transactions.length)).toEqual([10, 10, 10, 10, 10]);
      for (const { length } of collections.flatMap(({ transactions }) => transactions))
        expect(length).toBe(655);
    }
  });

  it('mainnet is mostly empty', () => {
    const generated = blocks(new ChainGenerator({ profile: 'mainnet' }), 400);
    const empty = generated.filter(({ collections }) => collections.length === 0).length;
    expect(empty / generated.length).toBeGreaterThan(0.35);
    expect(empty / generated.length).toBeLessThan(0.75);
  });

  it('refuses values that no block can have', () => {
    const refuse = (profile: object): unknown =>
      expect(() => new ChainGenerator({ profile })).toThrow(/profile is wrong/);
    refuse({ emptyShare: 1.5 });
    refuse({ transactionsPerCollection: { min: 5, max: 4 } });
    refuse({ transactionsPerCollection: { min: 0, max: 101 } });
    refuse({ odd: { rainbow: 3 } });
    refuse({ odd: { multiSign: -1 } });
    refuse({ trieUpdateBytes: 0.5 });
  });
});

describe('a chain of hashed ids', () => {
  const chain = new ChainGenerator({ hashedIds: true, seed: 7, rootHeight: 500 });
  const prover = new BlockProver({ chainId: chain.chainId });
  const full = (block: GeneratedBlock): Buffer =>
    Buffer.concat([block.encoded, block.hashed?.extras ?? Buffer.alloc(0)]);

  it('is one whose every block is proven, in its light form', () => {
    for (let height = 500; height < 620; height += 1) {
      const block = chain.block(height);
      const proving = prover.prove(full(block));
      if (proving.kind !== 'proven') throw new Error(`height ${height}: ${JSON.stringify(proving)}`);
      expect(proving.block.encoded).toEqual(block.encoded);
      expect(block.parentId).toBe(height === 500 ? ZERO_ID : chain.blockId(height - 1));
    }
  });

  it('does not depend on the order in which its blocks are asked for', () => {
    const again = new ChainGenerator({ hashedIds: true, seed: 7, rootHeight: 500 });
    expect(again.blockId(600)).toBe(chain.blockId(600));
    expect(again.block(510).encoded).toEqual(chain.block(510).encoded);
    expect(again.sporkId).toBe(chain.blockId(500));
  });

  it('finds a block by its id, an orphan as well, which is proven too', () => {
    const orphan = chain.block(530, 'orphan');
    expect(orphan.id).not.toBe(chain.blockId(530));
    expect(orphan.parentId).toBe(chain.blockId(529));
    expect(prover.prove(full(orphan)).kind).toBe('proven');
    expect(chain.ids.locate(identifierBytes(chain.blockId(530)))).toEqual({ height: 530, fork: 'chain' });
    chain.ids.idAt(530, 'orphan');
    expect(chain.ids.locate(identifierBytes(orphan.id))).toEqual({ height: 530, fork: 'orphan' });
    expect(chain.ids.locate(Buffer.alloc(32))).toBeUndefined();
  });
});

describe('a chain with a committee', () => {
  const ROOT = 40;
  const chain = new ChainGenerator({ hashedIds: true, rootHeight: ROOT, certifiedFrom: 140 });
  const prover = new BlockProver({ chainId: chain.chainId });
  const headerAt = (height: number): StoredHeader => {
    const { encoded, hashed } = chain.block(height);
    const proving = prover.prove(Buffer.concat([encoded, hashed?.extras ?? Buffer.alloc(0)]));
    if (proving.kind !== 'proven') throw new Error(`height ${height}: ${JSON.stringify(proving)}`);
    return readHeader(proving.block.encoded, proving.proof, chain.chainId);
  };
  const headersTo = (height: number): StoredHeader[] => [height - 2, height - 1, height].map(headerAt);
  const stateAt = (height: number) => {
    const stateId = toIdentifier(headerAt(height).protocolStateId);
    const read = readProtocolState(chain.snapshot(height) ?? '', stateId);
    if (!read.ok) throw new Error(read.reason);
    return read.state;
  };
  const prepared = prepareCommittee(stateAt(ROOT).current.committee);
  const proven = (headers: readonly StoredHeader[]) =>
    provenFinal(headers, (certificate) => verifyCertificate(certificate, prepared));

  it('names it in the protocol state of each block: five members, for one long epoch', () => {
    const { current, next } = stateAt(130);
    expect(current.committee).toEqual(prepared.committee);
    expect(current.committee.members).toHaveLength(5);
    expect(current.firstView).toBe(headerAt(ROOT).view);
    expect(current.finalView).toBeGreaterThan(current.firstView + 1_000_000);
    expect(next).toBeUndefined();
  });

  it('serves it with the names that recorded nodes gave the fields', () => {
    const namesIn = (snapshot: ReturnType<typeof recordedSnapshot>): string[][] => {
      const [{ KVStore, EpochEntry }] = Object.values(snapshot.SealingSegment.ProtocolStateEntries) as [
        ProtocolStateEntry,
      ];
      const { CurrentEpoch, CurrentEpochSetup, CurrentEpochCommit } = EpochEntry;
      const [participant] = CurrentEpochSetup.Participants;
      const parts = [KVStore, EpochEntry, CurrentEpoch, CurrentEpochSetup, CurrentEpochCommit, participant];
      return parts.map((part) =>
        Object.keys(part as object)
          .filter((name) => !name.endsWith('IdentityTable'))
          .sort(),
      );
    };
    const served = JSON.parse(chain.snapshot(ROOT) ?? '') as ReturnType<typeof recordedSnapshot>;
    expect(namesIn(served)).toEqual(namesIn(recordedSnapshot()));
  });

  it('proves blocks final, every one from a height on, and every hundredth below', async () => {
    for (const height of [100, 140, 141, 149, 153]) {
      expect(await proven(headersTo(height)), String(height)).toMatchObject({
        ...{ kind: 'final', height: height - 2, id: chain.blockId(height - 2) },
        certificate: { height: height - 1, signers: 4, weight: 400, threshold: 334 },
      });
    }
    expect((await proven(headersTo(139))).kind).toBe('refused');
  });

  it('decides nothing where a view timed out, of which a certificate tells', async () => {
    // Heights 149, 150 and 151: the view before the one of 150 had no block.
    const headers = headersTo(151);
    expect(await proven(headers)).toEqual({ kind: 'undecided' });
    expect(headers.map(({ lastViewTC }) => lastViewTC !== undefined)).toEqual([false, true, false]);
    expect(headers[1]?.view).toBe((headers[1]?.parentView ?? 0) + 2);
  });
});

describe('a chain of epochs', () => {
  const options = { hashedIds: true, certificatesEvery: 1, epochViews: 20 } as const;
  const prover = new BlockProver({ chainId: 'flow-localnet' });
  const headerOf = (chain: ChainGenerator, height: number): StoredHeader => {
    const { encoded, hashed } = chain.block(height);
    const proving = prover.prove(Buffer.concat([encoded, hashed?.extras ?? Buffer.alloc(0)]));
    if (proving.kind !== 'proven') throw new Error(`height ${height}: ${JSON.stringify(proving)}`);
    return readHeader(proving.block.encoded, proving.proof, chain.chainId);
  };
  const stateOf = (chain: ChainGenerator, height: number) => {
    const stateId = toIdentifier(headerOf(chain, height).protocolStateId);
    const read = readProtocolState(chain.snapshot(height) ?? '', stateId);
    if (!read.ok) throw new Error(read.reason);
    return read.state;
  };
  /** The epoch at each height, with its last view, and that of the next one. */
  const told = (chain: ChainGenerator, heights: readonly number[]) =>
    heights.map((height) => {
      const { current, next, previous } = stateOf(chain, height);
      expect(previous?.committee.epoch).toBe(
        current.committee.epoch === 0 ? undefined : current.committee.epoch - 1,
      );
      return [current.committee.epoch, current.finalView - 1_000, next && next.firstView - 1_000];
    });
  const isSignedBy = (chain: ChainGenerator, height: number, committee: Committee): boolean =>
    verifyCertificate(certificateIn(headerOf(chain, height)), prepareCommittee(committee)).valid;

  it('names the next committee from the middle of each, which signs from its first view on', () => {
    const chain = new ChainGenerator(options);
    expect(told(chain, [0, 9, 10, 19, 20, 39, 45])).toEqual([
      [0, 19, undefined],
      [0, 19, undefined],
      [0, 19, 20],
      [0, 19, 20],
      [1, 39, undefined],
      [1, 39, 40],
      [2, 59, undefined],
    ]);
    const { current, next } = stateOf(chain, 19);
    // Each header holds the certificate of its parent.
    expect([20, 21].map((height) => isSignedBy(chain, height, current.committee))).toEqual([true, false]);
    expect([20, 21].map((height) => isSignedBy(chain, height, next!.committee))).toEqual([false, true]);
  });

  it('goes on with the same committee where none was committed in time', () => {
    const chain = new ChainGenerator({ ...options, fallbackEpoch: 1 });
    expect(told(chain, [19, 34, 35, 45, 52, 62])).toEqual([
      [0, 19, 20],
      [1, 39, undefined],
      [1, 59, undefined],
      [1, 59, undefined],
      [1, 59, 60],
      [2, 79, undefined],
    ]);
    expect(isSignedBy(chain, 45, stateOf(chain, 20).current.committee)).toBe(true);
  });

  it('is the same up to an epoch that is forged', () => {
    const [chain, forged] = [{}, { forgedEpoch: 1 }].map(
      (other) => new ChainGenerator({ ...options, ...other }),
    ) as [ChainGenerator, ChainGenerator];
    expect(forged.blockId(19)).toBe(chain.blockId(19));
    expect(forged.blockId(20)).not.toBe(chain.blockId(20));
    const { next } = stateOf(forged, 19);
    expect([chain, forged].map((each) => isSignedBy(each, 22, next!.committee))).toEqual([true, false]);
    expect(isSignedBy(forged, 22, stateOf(forged, 20).current.committee)).toBe(true);
  });
});
