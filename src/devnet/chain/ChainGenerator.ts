import {
  collectionIdOf,
  encodeBlock,
  encodeFullCollection,
  encodeGuarantee,
  type Identifier,
  identifierBytes,
  toIdentifier,
  transactionId,
  WireWriter,
  ZERO_ID,
} from '../../flow/index.js';
import type { Certificate } from '../../proof/index.js';
import { BlockIds, type Fork } from './BlockIds.js';
import { HashedBlocks, type HashedBlock, type HashedContent } from './HashedBlocks.js';
import { SEALS_BEHIND_HEIGHTS, timeoutCertificate, viewsOf } from './encodeHeader.js';
import {
  type ChainProfile,
  type OddKind,
  oddKinds,
  type ProfileName,
  resolveProfile,
} from './chainProfile.js';
import { PlainTransactions } from './PlainTransactions.js';
import { SystemChunk } from './SystemChunk.js';
import { SimulatedEpochs } from './SimulatedEpochs.js';
import { makeTransaction } from './makeTransaction.js';
import type { Prng } from './Prng.js';

const FULL_COLLECTION_TRANSACTIONS = 100;
const REFERENCE_BLOCK_BEHIND_MAX = 20;
const SIGNATURE_BYTES = 48;
const NONE = Buffer.alloc(0);
const DEFAULT_CERTIFICATES_EVERY_HEIGHTS = 100;
/** Whoever catches up looks at the certificates of these alone: one that is not real would be of a chain that nobody signed. */
const SPARSE_HEIGHTS = 1_000;
/** Timestamp of height 0, chosen so that height 137 million falls into 2024. */
const GENESIS_MS = 1_600_000_000_000;
/** Salts of `BlockIds.words`; a collection uses its index. */
const SALT_BLOCK = 1_000_001;
const SALT_GUARANTEES = 1_000_002;
const SALT_SYSTEM = 1_000_003;
const SALT_HEADER = 1_000_004;
const SALT_TIMEOUT = 1_000_005;

/** The kinds that shape a block's collections; all others shape a transaction. */
const collectionKinds: ReadonlySet<OddKind> = new Set<OddKind>([
  'fullCollection',
  'bigCollection',
  'emptyCollection',
  'repeatedCollection',
  'twinCollection',
  'repeatedTransaction',
  'crossBlockTransaction',
]);

const repeatsBelow: ReadonlySet<OddKind> = new Set<OddKind>(['repeatedCollection', 'crossBlockTransaction']);

export interface ChainOptions {
  /** The same seed, chain id and profile give the same chain on every machine. Default 1. */
  readonly seed?: number;
  /** Default `flow-localnet`. */
  readonly chainId?: string;
  /** Height of the first block of the spork. It has no collections. Default 0. */
  readonly rootHeight?: number;
  /** Parent of the root block: the last block of the previous spork. Default: zeros. */
  readonly rootParentId?: Identifier;
  /** The last height. Default: none, the chain grows. */
  readonly endHeight?: number;
  /** False: no system chunk, as on the emulator. Default true. */
  readonly systemChunk?: boolean;
  /**
   * True: block ids are hashes of their headers, and these of their payloads, as Flow's are. Each depends on the one below, so
   * every block up to the highest one asked for is made once. Default false: ids are made up, and no header hashes to them.
   */
  readonly hashedIds?: boolean;
  /**
   * With `hashedIds`: every so many heights the header holds a quorum certificate that a committee signed, in place of random
   * bytes; 0: none, and no committee. Each takes some 10 ms. Default 100.
   */
  readonly certificatesEvery?: number;
  /** The headers from this height on hold one each. Ids depend on it: give it to all nodes of a chain. Default: none. */
  readonly certifiedFrom?: number;
  /** The certificates from this height on are signed by a minority. Ids depend on it. Default: none is. */
  readonly minorityFrom?: number;
  /**
   * With a committee: views of each epoch, the next of which has another committee; 8 at least. Default 0: one epoch that does
   * not end. Ids depend on it, as on the next two.
   */
  readonly epochViews?: number;
  /** The epoch that is not followed by a committed one in time: it takes twice as long. Default: none. */
  readonly fallbackEpoch?: number;
  /** From this epoch on, a committee signs that nobody has committed. Default: none. */
  readonly forgedEpoch?: number;
  readonly profile?: ProfileName | (Partial<ChainProfile> & { readonly base?: ProfileName });
}

/** A collection of the simulated chain. */
export interface GeneratedCollection {
  readonly id: Identifier;
  /** 32 bytes each, concatenated, in order. */
  readonly transactionIds: Buffer;
  readonly transactions: readonly Buffer[];
  /** `repeated Transaction transactions = 1`, as in a full collection's response and a chunk's collection. */
  readonly encoded: Uint8Array;
  /** The height it was generated for; lower than the block's when repeated. */
  readonly originHeight: number;
}

/** A block of the simulated chain with its collections. */
export interface GeneratedBlock {
  readonly height: number;
  readonly id: Identifier;
  readonly parentId: Identifier;
  readonly timestamp: { readonly seconds: bigint; readonly nanos: number };
  /** One per guarantee, in order. */
  readonly collections: readonly GeneratedCollection[];
  /** The light form of `flow.entities.Block`, canonical. */
  readonly encoded: Uint8Array;
  /** The odd things in it. */
  readonly odd: readonly OddKind[];
  /** With `hashedIds`: its header, and the fields that only its full form has. */
  readonly hashed?: Pick<HashedBlock, 'header' | 'extras'>;
}

/**
 * A chain as a function of (seed, chain id, profile, height): any block, in any order, at the same cost, with
 * nothing stored: millions of heights cost no memory.
 *
 * Transaction and collection ids are real hashes. Those of blocks are made up, unless `hashedIds` asks for real ones, which
 * depend on all blocks below.
 */
export class ChainGenerator {
  readonly seed: number;
  readonly chainId: string;
  readonly rootHeight: number;
  readonly endHeight: number;
  readonly profile: ChainProfile;
  readonly ids: Pick<BlockIds, 'idAt' | 'locate' | 'derive' | 'words'>;
  readonly sporkId: Identifier;
  readonly #rootParentId: Identifier;
  readonly #hashed: HashedBlocks | undefined;
  /** `undefined` where no certificate is real. */
  readonly #epochs: SimulatedEpochs | undefined;
  readonly #certificatesEvery: number;
  readonly #certifiedFrom: number;
  readonly #minorityFrom: number;
  readonly #phases: ReadonlyMap<OddKind, number>;
  /** `undefined` where the network has none. */
  readonly #systemChunk: SystemChunk | undefined;
  readonly #plainTransactions = new PlainTransactions();

  /** Expected errors: `OperatorError('configuration')` for an impossible profile. */
  constructor(options: ChainOptions = {}) {
    this.seed = options.seed ?? 1;
    this.chainId = options.chainId ?? 'flow-localnet';
    this.rootHeight = options.rootHeight ?? 0;
    this.endHeight = options.endHeight ?? Number.MAX_SAFE_INTEGER;
    this.profile = resolveProfile(options.profile);
    const plain = new BlockIds({ seed: this.seed, chainId: this.chainId });
    this.#rootParentId = options.rootParentId ?? ZERO_ID;
    this.#phases = new Map(oddKinds.map((kind) => [kind, plain.derive(kind).readUInt32BE(0)]));
    const { scheduledTransactions } = this.profile;
    this.#systemChunk =
      options.systemChunk === false
        ? undefined
        : new SystemChunk({ chainId: this.chainId, scheduledTransactions });
    const { chainId, rootHeight } = this;
    this.#certificatesEvery =
      options.hashedIds === true ? (options.certificatesEvery ?? DEFAULT_CERTIFICATES_EVERY_HEIGHTS) : 0;
    this.#certifiedFrom = options.certifiedFrom ?? Number.MAX_SAFE_INTEGER;
    this.#minorityFrom = options.minorityFrom ?? Number.MAX_SAFE_INTEGER;
    const { epochViews = 0, fallbackEpoch, forgedEpoch } = options;
    this.#epochs =
      this.#certificatesEvery === 0
        ? undefined
        : new SimulatedEpochs(
            { firstView: viewsOf(rootHeight).view, epochViews, fallbackEpoch, forgedEpoch },
            { derive: (name) => plain.derive(name) },
          );
    this.#hashed =
      options.hashedIds === true
        ? new HashedBlocks(
            { chainId, rootHeight, rootParentId: this.#rootParentId },
            { contentOf: (height, fork) => this.#contentOf(height, fork) },
          )
        : undefined;
    const hashed = this.#hashed;
    this.ids =
      hashed === undefined
        ? plain
        : {
            idAt: (height, fork) => hashed.idAt(height, fork),
            locate: (id) => hashed.locate(id),
            derive: (name) => plain.derive(name),
            words: (height, salt) => plain.words(height, salt),
          };
    // A spork's id is that of its root block.
    this.sporkId = toIdentifier(hashed?.idAt(rootHeight) ?? plain.derive('spork'));
  }

  blockId(height: number): Identifier {
    return toIdentifier(this.ids.idAt(height));
  }

  parentId(height: number): Identifier {
    return height === this.rootHeight ? this.#rootParentId : this.blockId(height - 1);
  }

  /** The block at a height, or its orphan: another id, same parent and collections. */
  block(height: number, fork: Fork = 'chain'): GeneratedBlock {
    const hashed = this.#hashed?.block(height, fork);
    const id = hashed?.id ?? toIdentifier(this.ids.idAt(height, fork));
    const parentId = this.parentId(height);
    const timestamp = this.#timestamp(height);
    const odd = this.oddAt(height);
    const { collections, guarantees, signature } = this.#guaranteed(height, odd);
    // A copy of what the header holds.
    const signatures = [hashed?.parentVoterSigData ?? signature];
    const encoded = encodeBlock({ id, parentId, height, timestamp, guarantees, signatures });
    return { height, id, parentId, timestamp, collections, encoded, odd, ...(hashed && { hashed }) };
  }

  #timestamp(height: number): GeneratedBlock['timestamp'] {
    const ms = GENESIS_MS + height * this.profile.blockTimeMs;
    return { seconds: BigInt(Math.floor(ms / 1000)), nanos: (ms % 1000) * 1_000_000 };
  }

  /** The collections of a height, its guarantees, and the signature of its parent's voters. */
  #guaranteed(height: number, odd: readonly OddKind[]) {
    const collections = this.#collections(height, odd);
    const words = this.ids.words(height, SALT_GUARANTEES);
    const reference = this.#reference(height, words);
    // The root has no collections, and its own id is not known yet.
    const referenceBlockId = identifierBytes(collections.length === 0 ? ZERO_ID : this.blockId(reference));
    const cluster = toIdentifier(this.ids.derive('spork')).slice(0, 16);
    const guarantees = collections.map((collection, index) => {
      const signature = words.bytes(SIGNATURE_BYTES);
      return {
        collectionId: collection.id,
        referenceBlockId,
        signature,
        // The copy that nodes add for older clients.
        signatures: this.#hashed === undefined ? [] : [signature],
        signerIds: [],
        signerIndices: words.bytes(3),
        clusterChainId: Buffer.from(`cluster-${index}-${cluster}`, 'utf8'),
      };
    });
    return { collections, guarantees, signature: words.bytes(SIGNATURE_BYTES) };
  }

  /** What a hashed block is made of. */
  #contentOf(height: number, fork: Fork): HashedContent {
    const words = this.ids.words(height, SALT_HEADER);
    const { guarantees, signature } = this.#guaranteed(height, this.oddAt(height));
    const { seconds, nanos } = this.#timestamp(height);
    const { view, parentView, isSkipped } = viewsOf(height);
    // Nobody proposes a root or votes for its parent, which is of another spork.
    const isRoot = height === this.rootHeight && fork === 'chain';
    const certificate = this.#certificateAt(height) ?? {
      view: parentView,
      blockId: this.parentId(height),
      voterIndices: isRoot ? NONE : words.bytes(3),
      voterSigData: isRoot ? NONE : signature,
    };
    const sealed = height - SEALS_BEHIND_HEIGHTS;
    const seals =
      sealed < this.rootHeight
        ? []
        : [
            new WireWriter()
              .bytes(1, identifierBytes(this.blockId(sealed)))
              .bytes(5, this.ids.derive(`state ${sealed}`))
              .bytes(6, this.ids.derive(`result ${sealed}`))
              .finish(),
          ];
    return {
      guarantees: guarantees.map(encodeGuarantee),
      seals,
      receipts: [],
      results: [],
      protocolStateId: this.#epochs?.protocolStateId(view) ?? this.ids.derive('protocol state'),
      timestamp: new WireWriter().number(1, seconds).number(2, nanos).finish(),
      view,
      parentView,
      proposerId: isRoot
        ? NONE
        : this.ids.derive(fork === 'chain' ? `proposer ${words.below(8)}` : 'another proposer'),
      parentVoterIndices: certificate.voterIndices,
      parentVoterSigData: certificate.voterSigData,
      lastViewTC:
        isSkipped && height > this.rootHeight
          ? timeoutCertificate(view - 1, certificate, this.ids.words(height, SALT_TIMEOUT))
          : undefined,
    };
  }

  /** The certificate for its parent that the block at a height holds, where it is a real one. */
  #certificateAt(height: number): Certificate | undefined {
    const isInTurn = height % this.#certificatesEvery === 0 || height % SPARSE_HEIGHTS === 0;
    const isCertified = isInTurn || height >= this.#certifiedFrom;
    if (!isCertified || height === this.rootHeight) return undefined;
    return this.#epochs?.certificateOf({
      view: viewsOf(height).parentView,
      blockId: this.blockId(height - 1),
      isMinority: height >= this.#minorityFrom,
    });
  }

  /** Whether it has a committee, and so snapshots. */
  get hasCommittee(): boolean {
    return this.#epochs !== undefined;
  }

  /**
   * The protocol state at a block, as JSON in the shape that nodes serve: of the blocks only what names them, and the state
   * with all its parts. `undefined` without a committee.
   */
  snapshot(height: number): string | undefined {
    const epochs = this.#epochs;
    if (epochs === undefined) return undefined;
    const { chainId, rootHeight, sporkId } = this;
    const { view } = viewsOf(height);
    const id = this.blockId(height);
    const { voterIndices, voterSigData } = epochs.certificateOf({ view, blockId: id });
    return JSON.stringify({
      SealingSegment: {
        Blocks: [this.#blockInSnapshot(height, epochs)],
        ExtraBlocks: null,
        ExecutionResults: null,
        LatestSeals: {},
        FirstSeal: null,
        ProtocolStateEntries: epochs.entries(view),
      },
      QuorumCertificate: {
        View: view,
        BlockID: id,
        SignerIndices: Buffer.from(voterIndices).toString('base64'),
        SigData: Buffer.from(voterSigData).toString('base64'),
      },
      Params: {
        ChainID: chainId,
        SporkID: sporkId,
        SporkRootBlockHeight: rootHeight,
        SporkRootBlockView: viewsOf(rootHeight).view,
      },
      SealedVersionBeacon: null,
    });
  }

  #blockInSnapshot(height: number, epochs: SimulatedEpochs): object {
    const { view, parentView } = viewsOf(height);
    return {
      Block: {
        ChainID: this.chainId,
        ParentID: this.parentId(height),
        Height: height,
        View: view,
        ParentView: parentView,
        Payload: { ProtocolStateID: toIdentifier(epochs.protocolStateId(view)) },
        ID: this.blockId(height),
      },
      ProposerSigData: null,
    };
  }

  /** Transactions of the system chunk, in order; none at the root or where there is no such chunk. */
  systemTransactions(height: number): readonly Buffer[] {
    if (height === this.rootHeight || this.#systemChunk === undefined) return [];
    return this.#systemChunk.transactions(height, this.ids.words(height, SALT_SYSTEM));
  }

  /** The id of a system transaction that is the same in every block; else `undefined`. */
  systemTransactionId(wire: Buffer): Buffer | undefined {
    return this.#systemChunk?.idOf(wire);
  }

  /** System transactions that are the same in every block, by id. */
  get repeatedSystemTransactions(): ReadonlyMap<string, Buffer> {
    return this.#systemChunk?.repeatedTransactions ?? new Map();
  }

  /** Random words for headers and execution data; the same salt gives the same words. */
  words(height: number, salt: number): Prng {
    return this.ids.words(height, 2_000_000 + salt);
  }

  /** The odd things at a height: each kind exactly once in N heights. */
  oddAt(height: number): OddKind[] {
    if (height === this.rootHeight) return [];
    const due = oddKinds.filter((kind) => this.#isDue(kind, height));
    // The root block has nothing to repeat.
    return height - 1 > this.rootHeight ? due : due.filter((kind) => !repeatsBelow.has(kind));
  }

  #isDue(kind: OddKind, height: number): boolean {
    const every = this.profile.odd[kind] ?? 0;
    return every > 0 && (height + (this.#phases.get(kind) ?? 0)) % every === 0;
  }

  #collections(height: number, odd: readonly OddKind[]): GeneratedCollection[] {
    const own = this.#ownCollectionCount(height, odd);
    const collections: GeneratedCollection[] = [];
    for (let index = 0; index < own; index++) collections.push(this.#ownCollection(height, index));
    const first = collections[0];
    if (first === undefined) return collections;
    if (odd.includes('repeatedTransaction')) collections.push(this.#borrowing(height, 0, first));
    if (odd.includes('crossBlockTransaction')) {
      collections.push(this.#borrowing(height, 1, this.#ownCollection(height - 1, 0)));
    }
    if (odd.includes('repeatedCollection')) collections.push(this.#ownCollection(height - 1, 0));
    if (odd.includes('twinCollection')) collections.push(first);
    if (odd.includes('emptyCollection')) collections.push(makeCollection([], height));
    return collections;
  }

  #ownCollectionCount(height: number, odd: readonly OddKind[]): number {
    if (height === this.rootHeight) return 0;
    const words = this.ids.words(height, SALT_BLOCK);
    const isEmpty = words.chance(this.profile.emptyShare);
    const count = words.between(this.profile.collectionsPerBlock);
    // The block above may repeat a collection or transaction of this one, which must exist then.
    const isNeeded =
      odd.length > 0 ||
      this.#isDue('repeatedCollection', height + 1) ||
      this.#isDue('crossBlockTransaction', height + 1);
    if (isNeeded) return Math.max(1, count);
    return isEmpty ? 0 : count;
  }

  /** A collection, determined by its height and index. */
  #ownCollection(height: number, index: number): GeneratedCollection {
    const words = this.ids.words(height, index);
    const odd = index === 0 ? this.oddAt(height) : [];
    let count = words.between(this.profile.transactionsPerCollection);
    let bytes: number | undefined;
    if (odd.includes('bigCollection')) {
      count = 2;
      bytes = Math.floor(this.profile.bigCollectionBytes / count);
    } else if (odd.includes('fullCollection')) {
      count = FULL_COLLECTION_TRANSACTIONS;
    }
    const transactionOdd = odd.filter((kind) => !collectionKinds.has(kind));
    if (odd.length > 0) count = Math.max(1, count);

    const transactions: Buffer[] = [];
    for (let position = 0; position < count; position++) {
      transactions.push(
        this.#transaction(height, words, {
          targetBytes: bytes,
          odd: transactionOdd.filter((_, place) => place % count === position),
        }),
      );
    }
    return makeCollection(transactions, height);
  }

  /** A collection of a borrowed transaction and one of its own. */
  #borrowing(height: number, place: number, from: GeneratedCollection): GeneratedCollection {
    const [borrowed] = from.transactions;
    const own = this.#transaction(height, this.ids.words(height, 10_000 + place), { odd: [] });
    return makeCollection(borrowed === undefined ? [own] : [borrowed, own], height);
  }

  #transaction(
    height: number,
    words: Prng,
    plan: { readonly targetBytes?: number | undefined; readonly odd: readonly OddKind[] },
  ): Buffer {
    const targetBytes = plan.targetBytes ?? words.between(this.profile.transactionBytes);
    const referenceBlockId = this.ids.idAt(this.#reference(height, words));
    const plain =
      plan.odd.length === 0 ? this.#plainTransactions.make(targetBytes, referenceBlockId, words) : undefined;
    return plain ?? makeTransaction({ targetBytes, referenceBlockId, odd: plan.odd }, words);
  }

  #reference(height: number, words: Prng): number {
    return Math.max(this.rootHeight, height - 1 - words.below(REFERENCE_BLOCK_BEHIND_MAX));
  }
}

/** Uses the daemon's own hash functions; tests check both against a third implementation. */
function makeCollection(transactions: readonly Buffer[], originHeight: number): GeneratedCollection {
  const transactionIds = Buffer.concat(transactions.map((wire) => transactionId(wire)));
  return {
    id: collectionIdOf(transactionIds),
    transactionIds,
    transactions,
    encoded: encodeFullCollection(transactions),
    originHeight,
  };
}
