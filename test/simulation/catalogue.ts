import { Chain, ChainGenerator, consecutiveSporks } from '../../src/devnet/index.js';
import type { ChainProfile, GeneratedBlock } from '../../src/devnet/index.js';
import type { Identifier } from '../../src/flow/index.js';
import { signed, type Signed, type Signing } from './finality.js';
import { unboundBytes } from './unboundBytes.js';

export interface StretchSpork {
  readonly chain: Chain;
  /** The next spork builds on it, whatever stands above; of the last spork: where the head stops. */
  readonly lastHeight: number;
}

/** A stretch of a chain that runs index; the same for many seeds, so that it is made once. */
export interface Stretch {
  readonly name: string;
  /** Block ids are hashes of their headers, as Flow's are; or made up, and nothing can be proven. */
  readonly isProvable: boolean;
  /** What its certificates prove; `undefined`: nobody asks for that. */
  readonly signed?: Signed;
  /** Ascending, at least one. Nodes serve one of them each; the last is the live one. */
  readonly sporks: readonly StretchSpork[];
  /** How nodes of earlier sporks are found: the table lists them and the parents of the roots, or the operator names them. */
  readonly served: 'table' | 'named';
  /** What a node of another network serves, at the heights of the live spork. */
  readonly otherChain: Chain;
  readonly firstHeight: number;
  readonly stopHeight: number;
  readonly endHeight: number;
  readonly blockAt: (height: number) => GeneratedBlock;
  /** At which heights of the stretch a collection stands. */
  readonly placesOf: ReadonlyMap<Identifier, readonly number[]>;
  /** Of all its transactions; see `unboundBytes`. */
  readonly unbound: readonly Buffer[];
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

/** Of one spork: numbers below it name one. */
export const PLAIN_STRETCHES = 20;

/** A stretch that goes from spork to spork. */
interface SporkShape {
  readonly served: Stretch['served'];
  readonly heights: readonly number[];
  /** Blocks above its end that each earlier spork finalized, and the next one discarded. */
  readonly discarded: number;
  /** The parent that each further root names: the last block of the spork before, or another one than its nodes have. */
  readonly rootParent: 'last' | 'other';
  /** Place in `profiles`. */
  readonly profile: number;
}

const sporkShapes: readonly SporkShape[] = [
  { served: 'table', heights: [9, 14], discarded: 0, rootParent: 'last', profile: 0 },
  { served: 'table', heights: [8, 30], discarded: 5, rootParent: 'last', profile: 1 },
  { served: 'table', heights: [12, 3, 16], discarded: 0, rootParent: 'other', profile: 2 },
  { served: 'table', heights: [20, 9, 12], discarded: 3, rootParent: 'other', profile: 0 },
  { served: 'table', heights: [3, 1, 40], discarded: 1, rootParent: 'last', profile: 4 },
  { served: 'named', heights: [10, 14], discarded: 0, rootParent: 'last', profile: 1 },
  { served: 'named', heights: [7, 3, 18], discarded: 0, rootParent: 'last', profile: 0 },
  { served: 'named', heights: [30, 30], discarded: 0, rootParent: 'last', profile: 3 },
];

/** They follow those of one spork. */
export const SPORK_STRETCHES = sporkShapes.length;

/** Heights of stretches whose chain goes on. They have no empty collections: a node finds those at the last height made. */
const growingLengths = [30, 60] as const;

export const GROWING_STRETCHES = growingLengths.length;

/** How far it goes on, at a block every few seconds. */
const GROWING_HEIGHTS = 700;

export const STRETCHES = PLAIN_STRETCHES + SPORK_STRETCHES + GROWING_STRETCHES;

export class Catalogue {
  readonly #stretches = new Map<string, Stretch>();

  /** `signing` is for stretches of one spork whose blocks are provable. */
  at(index: number, isProvable = false, signing?: Signing): Stretch {
    const key = `${index} ${isProvable} ${signing ?? ''}`;
    const stretch = this.#stretches.get(key) ?? made({ index, isProvable }, signing);
    this.#stretches.set(key, stretch);
    return stretch;
  }
}

function made(key: StretchKey, signing: Signing | undefined): Stretch {
  const growingLength = growingLengths[key.index - PLAIN_STRETCHES - SPORK_STRETCHES];
  if (growingLength !== undefined) return growingStretch(key, growingLength);
  const shape = sporkShapes[key.index - PLAIN_STRETCHES];
  return shape === undefined ? plainStretch(key, signing) : sporkStretch(key, shape);
}

interface StretchKey {
  readonly index: number;
  readonly isProvable: boolean;
}

function plainStretch({ index, isProvable }: StretchKey, signing: Signing | undefined): Stretch {
  const profile = profiles[index % profiles.length]!;
  const length = lengths[Math.floor(index / profiles.length) % lengths.length]!;
  // 0 is what nodes cannot tell from "not told".
  const rootHeight = index % 6 === 0 ? 0 : index % 6 === 3 ? 1 : 1000 * index;
  // Some begin with the root block, which has no chunks.
  const firstHeight = index % 3 === 2 || index === 12 ? rootHeight : rootHeight + 3 + (index % 4);
  const stopHeight = firstHeight + length - 1;
  // What has no end above it is followed until its last block is proven.
  const headRoom = signing === undefined ? HEAD_ROOM_HEIGHTS : 0;
  const endHeight = stopHeight + headRoom;
  const options = {
    ...{ rootHeight, endHeight, hashedIds: isProvable },
    profile: { base: 'mixed', ...profile },
  } as const;
  const how = signing && signed(signing, { rootHeight, firstHeight, stopHeight });
  return stretchOver({
    ...{ index, isProvable, firstHeight, stopHeight, served: 'table', headRoom },
    ...(how === undefined ? {} : { signed: how.signed }),
    sporks: [{ chain: new Chain({ ...options, ...how?.chain, seed: 100 + index }), lastHeight: endHeight }],
    otherChain: new Chain({ ...options, seed: 900 + index }),
  });
}

function growingStretch({ index, isProvable }: StretchKey, length: number): Stretch {
  const rootHeight = 1000 * index;
  const firstHeight = rootHeight + 3;
  const stopHeight = firstHeight + length - 1;
  const endHeight = stopHeight + HEAD_ROOM_HEIGHTS + GROWING_HEIGHTS;
  const { emptyCollection: _, ...others } = odd;
  const profile = { base: 'mixed', ...small, emptyShare: 0.3, odd: others } as const;
  const options = { rootHeight, endHeight, hashedIds: isProvable, profile };
  return stretchOver({
    ...{ index, isProvable, firstHeight, stopHeight, served: 'table' },
    sporks: [{ chain: new Chain({ ...options, seed: 100 + index }), lastHeight: endHeight }],
    otherChain: new Chain({ ...options, seed: 900 + index }),
  });
}

function sporkStretch(
  { index, isProvable }: StretchKey,
  { discarded, heights, profile, rootParent, served }: SporkShape,
): Stretch {
  const rootHeight = index % 2 === 0 ? 0 : 1000 * index;
  const firstHeight = index % 3 === 0 ? rootHeight : rootHeight + 3;
  const ends = heights
    .slice(0, -1)
    .map((_, spork) => ({ lastHeight: firstHeight + sum(heights.slice(0, spork + 1)) - 1, discarded }));
  const stopHeight = firstHeight + sum(heights) - 1;
  const endHeight = stopHeight + HEAD_ROOM_HEIGHTS;
  const all = consecutiveSporks({
    ...{ seed: 2000 + 10 * index, rootHeight, ends },
    common: { hashedIds: isProvable, profile: { base: 'mixed', ...profiles[profile] } },
  });
  const sporks = all.map((options, spork): StretchSpork => {
    const before = all[spork - 1];
    const beside =
      before === undefined || rootParent === 'last'
        ? {}
        : { rootParentId: new ChainGenerator(before).block(ends[spork - 1]!.lastHeight, 'orphan').id };
    const lastHeight = ends[spork]?.lastHeight ?? endHeight;
    return { chain: new Chain({ endHeight, ...options, ...beside }), lastHeight };
  });
  const otherChain = new Chain({ ...all.at(-1), endHeight, seed: 900 + index });
  return stretchOver({ index, isProvable, firstHeight, stopHeight, served, sporks, otherChain });
}

/** Every block is made now, so that what a node finds does not depend on who asked before. */
function stretchOver({
  index,
  headRoom = HEAD_ROOM_HEIGHTS,
  ...stretch
}: Omit<Stretch, 'name' | 'endHeight' | 'blockAt' | 'placesOf' | 'unbound'> & {
  readonly index: number;
  readonly headRoom?: number;
}): Stretch {
  const { firstHeight, otherChain, sporks, stopHeight } = stretch;
  const endHeight = stopHeight + headRoom;
  for (const chain of [otherChain, ...sporks.map((spork) => spork.chain)]) {
    const { generator } = chain;
    for (let height = generator.rootHeight; height <= generator.endHeight; height += 1) chain.block(height);
  }
  const blockAt = (height: number): GeneratedBlock => {
    const spork = sporks.find(({ lastHeight }) => height <= lastHeight);
    if (spork === undefined) throw new RangeError(`the stretch ends below height ${height}`);
    return spork.chain.block(height);
  };
  const placesOf = new Map<Identifier, number[]>();
  const unbound: Buffer[] = [];
  for (let height = firstHeight; height <= endHeight; height += 1) {
    const block = blockAt(height);
    unbound.push(...unboundBytes(block));
    for (const { id } of block.collections) {
      const places = placesOf.get(id) ?? [];
      if (!places.includes(height)) placesOf.set(id, [...places, height]);
    }
  }
  const crosses = sporks.length > 1 ? `, ${sporks.length} sporks, ${stretch.served}` : '';
  const proof = stretch.isProvable ? '' : ', made-up ids';
  const by = stretch.signed === undefined ? '' : `, signed by ${stretch.signed.signing}`;
  const name = `${index}: heights ${firstHeight} to ${stopHeight}${crosses}${proof}${by}`;
  return { ...stretch, name, endHeight, blockAt, placesOf, unbound };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
