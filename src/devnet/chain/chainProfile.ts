import { OperatorError } from '../../runtime/index.js';
import type { Range } from './Prng.js';

/**
 * Odd things in blocks. Each occurs exactly once in N blocks, at a place determined by the seed. The first group
 * shapes a block's collections, the second one transaction of its first collection.
 */
export const oddKinds = [
  /** The first collection holds 100 transactions, the most that Flow allows. */
  'fullCollection',
  /** The first collection is nearly as large as Flow allows: two transactions of over 1 MB. */
  'bigCollection',
  /** A collection without transactions. Collection nodes make none today, but the id is defined. */
  'emptyCollection',
  /** The block repeats the first collection of the block below. */
  'repeatedCollection',
  /** The block has its first collection twice. */
  'twinCollection',
  /** The last collection begins with the first transaction of the first one. */
  'repeatedTransaction',
  /** The last collection begins with the first transaction of the block below. */
  'crossBlockTransaction',

  /** Arguments end in a newline, as the Go SDK writes them. */
  'newlineArguments',
  /** A WebAuthn signature, whose `extension_data` is part of the id. */
  'extensionData',
  /** `extension_data` of one zero byte, which is not part of the id. */
  'plainExtensionData',
  /** Proposer, payer and two authorizers differ, and each signs. */
  'multiSign',
  /** A reference block of zeros. */
  'zeroReferenceBlock',
  /** A signature by an account that is not part of the transaction. */
  'unknownSigner',
  /** Addresses of one byte and of ten. */
  'unusualAddress',
  /** No script, arguments or authorizers. */
  'bareTransaction',
  /** Key index and sequence number at their maximum. */
  'largeNumbers',
] as const;

export type OddKind = (typeof oddKinds)[number];

/** What a chain's blocks are like. All of it goes into the ids: another profile gives another chain. */
export interface ChainProfile {
  /** Share of blocks without collections, 0 to 1; blocks with something odd are never empty. */
  readonly emptyShare: number;
  readonly collectionsPerBlock: Range;
  readonly transactionsPerCollection: Range;
  /** Wire size of a transaction in bytes; about 420 at least. */
  readonly transactionBytes: Range;
  /** Each kind occurs once in this many blocks; 0 or absent: never. */
  readonly odd: Readonly<Partial<Record<OddKind, number>>>;
  /** Wire size of a `bigCollection`. */
  readonly bigCollectionBytes: number;
  /** Scheduled transactions in the system chunk; `undefined` for the older chunk with only the system transaction. */
  readonly scheduledTransactions: Range | undefined;
  /** The bulk of execution data, which an indexer skips. */
  readonly eventsPerTransaction: number;
  readonly eventPayloadBytes: number;
  /** Trie updates in one block's execution data, over all chunks. */
  readonly trieUpdateBytes: number;
  /** Milliseconds between block timestamps, however fast the blocks are served. */
  readonly blockTimeMs: number;
}

export type ProfileName = 'mixed' | 'mainnet' | 'dense' | 'empty';

const bulk = { eventsPerTransaction: 2, eventPayloadBytes: 160, trieUpdateBytes: 1024, blockTimeMs: 800 };

/** Ready-made profiles. */
export const profiles: Readonly<Record<ProfileName, ChainProfile>> = {
  /** Every odd thing within a few hundred blocks (big collections: a few thousand); half of the blocks are empty. */
  mixed: {
    ...bulk,
    emptyShare: 0.5,
    collectionsPerBlock: { min: 1, max: 4 },
    transactionsPerCollection: { min: 1, max: 6 },
    transactionBytes: { min: 400, max: 1200 },
    scheduledTransactions: { min: 0, max: 2 },
    bigCollectionBytes: 2_800_000,
    odd: {
      fullCollection: 151,
      bigCollection: 4001,
      emptyCollection: 307,
      repeatedCollection: 41,
      twinCollection: 211,
      repeatedTransaction: 37,
      crossBlockTransaction: 43,
      newlineArguments: 7,
      extensionData: 23,
      plainExtensionData: 89,
      multiSign: 11,
      zeroReferenceBlock: 53,
      unknownSigner: 59,
      unusualAddress: 61,
      bareTransaction: 97,
      largeNumbers: 101,
    },
  },
  /** Mostly empty or small blocks; odd things are rare. */
  mainnet: {
    ...bulk,
    emptyShare: 0.6,
    collectionsPerBlock: { min: 1, max: 3 },
    transactionsPerCollection: { min: 1, max: 3 },
    transactionBytes: { min: 400, max: 1600 },
    scheduledTransactions: { min: 0, max: 3 },
    bigCollectionBytes: 2_800_000,
    trieUpdateBytes: 16_384,
    odd: {
      fullCollection: 5003,
      repeatedCollection: 2003,
      repeatedTransaction: 1009,
      crossBlockTransaction: 1511,
      newlineArguments: 5,
      extensionData: 211,
      multiSign: 29,
      unknownSigner: 4001,
    },
  },
  /** 5 collections of 10 transactions of 655 bytes in every block, for measuring. */
  dense: {
    ...bulk,
    emptyShare: 0,
    collectionsPerBlock: { min: 5, max: 5 },
    transactionsPerCollection: { min: 10, max: 10 },
    transactionBytes: { min: 655, max: 655 },
    scheduledTransactions: { min: 0, max: 0 },
    bigCollectionBytes: 0,
    eventsPerTransaction: 1,
    eventPayloadBytes: 64,
    odd: {},
  },
  /** Nothing but empty blocks. */
  empty: {
    ...bulk,
    emptyShare: 1,
    collectionsPerBlock: { min: 0, max: 0 },
    transactionsPerCollection: { min: 0, max: 0 },
    transactionBytes: { min: 0, max: 0 },
    scheduledTransactions: { min: 0, max: 0 },
    bigCollectionBytes: 0,
    trieUpdateBytes: 256,
    odd: {},
  },
};

/** Limits of the network, and limits that keep one block within a second's work. */
const limits = {
  collectionsPerBlock: 1000,
  transactionsPerCollection: 100,
  transactionBytes: 1_500_000,
  bigCollectionBytes: 3_000_000,
  scheduledTransactions: 1000,
  eventsPerTransaction: 1000,
  eventPayloadBytes: 1_000_000,
  trieUpdateBytes: 256 * 1024 * 1024,
  blockTimeMs: 3_600_000,
} as const;

/**
 * A profile by name, or one with some values changed.
 *
 * Expected errors: `OperatorError('configuration')` for impossible values.
 */
export function resolveProfile(
  profile: ProfileName | (Partial<ChainProfile> & { readonly base?: ProfileName }) = 'mixed',
): ChainProfile {
  if (typeof profile === 'string') return profiles[profile];
  const { base = 'mixed', ...changes } = profile;
  const resolved: ChainProfile = { ...profiles[base], ...changes };
  const problem = profileProblem(resolved);
  if (problem !== undefined) {
    throw new OperatorError('configuration', `The chain profile is wrong: ${problem}.`);
  }
  return resolved;
}

function profileProblem(profile: ChainProfile): string | undefined {
  const { emptyShare, odd, ...rest } = profile;
  if (!(emptyShare >= 0 && emptyShare <= 1)) return 'emptyShare must be between 0 and 1';
  for (const [kind, every] of Object.entries(odd)) {
    if (!(oddKinds as readonly string[]).includes(kind)) {
      return `"${kind}" is not a known kind of odd thing; the kinds are ${oddKinds.join(', ')}`;
    }
    if (!isWhole(every, Number.MAX_SAFE_INTEGER)) {
      return `odd.${kind} must be a whole number: once in how many blocks`;
    }
  }
  for (const [name, limit] of Object.entries(limits)) {
    const value = rest[name as keyof typeof limits];
    if (value === undefined) continue;
    const range = typeof value === 'number' ? { min: value, max: value } : value;
    if (!isWhole(range.min, limit) || !isWhole(range.max, limit) || range.min > range.max) {
      return `${name} must be a whole number, or a range of them, between 0 and ${limit}`;
    }
  }
  return undefined;
}

function isWhole(value: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && value <= max;
}
