import { Chain } from '../../src/devnet/index.js';
import type { ChainProfile } from '../../src/devnet/index.js';
import type { Identifier } from '../../src/flow/index.js';

/** A stretch of a chain that runs index; the same for many seeds, so that it is made once. */
export interface Stretch {
  readonly name: string;
  readonly chain: Chain;
  /** What a node of another network serves, at the same heights. */
  readonly otherChain: Chain;
  readonly firstHeight: number;
  readonly stopHeight: number;
  /** The head stops here. */
  readonly endHeight: number;
  /** At which heights of the stretch a collection stands. */
  readonly placesOf: ReadonlyMap<Identifier, readonly number[]>;
  /** The wire size of the largest collection, and of all the collections of the largest block. */
  readonly maxCollectionBytes: number;
  readonly maxBlockBytes: number;
}

/** Blocks above the stretch, so that all of it is sealed and executed in the end. */
const HEAD_ROOM_HEIGHTS = 24;

/** Everything odd that a block may hold, within a few blocks of each other. */
const odd: ChainProfile['odd'] = {
  fullCollection: 47,
  emptyCollection: 13,
  repeatedCollection: 7,
  twinCollection: 9,
  repeatedTransaction: 8,
  crossBlockTransaction: 6,
  newlineArguments: 3,
  extensionData: 5,
  plainExtensionData: 11,
  multiSign: 4,
  zeroReferenceBlock: 17,
  unknownSigner: 19,
  unusualAddress: 23,
  bareTransaction: 15,
  largeNumbers: 14,
};

const small: Partial<ChainProfile> = {
  collectionsPerBlock: { min: 1, max: 3 },
  transactionsPerCollection: { min: 1, max: 2 },
  transactionBytes: { min: 400, max: 600 },
  eventsPerTransaction: 1,
  eventPayloadBytes: 32,
  trieUpdateBytes: 64,
};

const profiles: readonly Partial<ChainProfile>[] = [
  { ...small, emptyShare: 0.3, odd },
  { ...small, emptyShare: 0, odd: {}, collectionsPerBlock: { min: 2, max: 4 } },
  { ...small, emptyShare: 0.8, odd },
  { ...small, emptyShare: 0.1, odd: { ...odd, bigCollection: 29 }, bigCollectionBytes: 300_000 },
  { ...small, emptyShare: 1, odd: {} },
];

const lengths = [4, 14, 30, 70] as const;

/** How many stretches there are: numbers below it name one. */
export const STRETCHES = 20;

/** Every stretch of the catalogue, made when it is first asked for. */
export class Catalogue {
  readonly #stretches = new Map<number, Stretch>();

  at(index: number): Stretch {
    let stretch = this.#stretches.get(index);
    if (stretch === undefined) {
      stretch = makeStretch(index);
      this.#stretches.set(index, stretch);
    }
    return stretch;
  }
}

function makeStretch(index: number): Stretch {
  const profile = profiles[index % profiles.length]!;
  const length = lengths[Math.floor(index / profiles.length) % lengths.length]!;
  // 0 is what nodes cannot tell from "not told".
  const rootHeight = index % 6 === 0 ? 0 : index % 6 === 3 ? 1 : 1000 * index;
  // Some begin with the root block, which has no chunks.
  const firstHeight = index % 3 === 2 || index === 12 ? rootHeight : rootHeight + 3 + (index % 4);
  const stopHeight = firstHeight + length - 1;
  const endHeight = stopHeight + HEAD_ROOM_HEIGHTS;
  const options = { rootHeight, endHeight, profile: { base: 'mixed', ...profile } } as const;
  const chain = new Chain({ ...options, seed: 100 + index });
  const otherChain = new Chain({ ...options, seed: 900 + index });
  const placesOf = new Map<Identifier, number[]>();
  let maxCollectionBytes = 0;
  let maxBlockBytes = 0;
  for (let height = rootHeight; height <= endHeight; height += 1) {
    // Made now, so that what a node finds does not depend on who asked before.
    otherChain.block(height);
    const { collections } = chain.block(height);
    let blockBytes = 0;
    for (const { encoded, id } of collections) {
      blockBytes += encoded.length;
      maxCollectionBytes = Math.max(maxCollectionBytes, encoded.length);
      if (height < firstHeight) continue;
      const places = placesOf.get(id);
      if (places === undefined) placesOf.set(id, [height]);
      else if (!places.includes(height)) places.push(height);
    }
    maxBlockBytes = Math.max(maxBlockBytes, blockBytes);
  }
  const name = `${index}: heights ${firstHeight} to ${stopHeight}`;
  return {
    ...{ name, chain, otherChain, firstHeight, stopHeight, endHeight },
    ...{ placesOf, maxCollectionBytes, maxBlockBytes },
  };
}
