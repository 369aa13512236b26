import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { deserialize, serialize } from 'node:v8';
import { ChainGenerator } from '../../../src/devnet/index.js';
import type { ChainOptions, GeneratedCollection } from '../../../src/devnet/index.js';
import {
  collectionIdOf,
  decodeBlockMessage,
  encodeBlock,
  encodeFullCollection,
  encodeTransaction,
  splitCollection,
  toIdentifier,
  transactionId,
  verifyCollection,
  ZERO_ID,
} from '../../../src/flow/index.js';
import type { VerifiedCollection } from '../../../src/flow/index.js';
import { seededRandom } from '../../../src/runtime/random.js';
import type { BlockEntry } from '../../../src/storage/index.js';

/** Every simulated chain that is stored by a bench begins here; the block below has no parent to be checked against. */
export const FIRST_HEIGHT = 1;
export const CHAIN_ID = 'flow-localnet';
/** Of one batch at most, as the daemon has it by default. */
export const GROUP_HEIGHTS = 64;

/** Blocks of a simulated chain as they reach the indexer: linked, with verified collections. */
export class BlockMaker {
  readonly #generator: ChainGenerator;

  constructor(options: ChainOptions) {
    this.#generator = new ChainGenerator({ chainId: CHAIN_ID, ...options });
  }

  at(height: number): BlockEntry {
    const { encoded, collections } = this.#generator.block(height);
    return { block: decodeBlockMessage(encoded), collections: collections.map(verified) };
  }

  /** `count` blocks from the first height on. */
  first(count: number): BlockEntry[] {
    return Array.from({ length: count }, (_, index) => this.at(FIRST_HEIGHT + index));
  }
}

/** The generator's ids are real hashes, made with what would verify them: hashing again would only take time. */
function verified({ id, transactionIds, transactions, encoded }: GeneratedCollection): VerifiedCollection {
  const ranges = new Uint32Array(2 * transactions.length);
  let at = 0;
  for (const [index, { length }] of transactions.entries()) {
    at += 1 + varintBytes(length);
    ranges[2 * index] = at;
    ranges[2 * index + 1] = length;
    at += length;
  }
  return { id, encoded, transactionIds, ranges };
}

function varintBytes(value: number): number {
  return Math.max(1, Math.ceil((32 - Math.clz32(value)) / 7));
}

const SCRIPT_BYTES = 368;
/** Words that scripts are made of, and names as they are found in them. */
const WORDS = (
  'transaction prepare execute signer account auth Storage BorrowValue Capabilities let var if else for in while return ' +
  'self import from pub access all contract resource struct interface event emit create destroy move copy nil panic ' +
  'FlowToken FungibleToken NonFungibleToken MetadataViews ViewResolver Vault Provider Receiver Balance Collection NFT ' +
  'withdraw deposit amount to recipient sender vaultRef receiverRef capability borrow publish issue unpublish exists ' +
  'storagePath publicPath privatePath UFix64 Address String UInt64 Bool marketplace listing storefront price royalty cut ' +
  'commission buyer seller sale item purchase offer bid auction metadata traits edition serial mint burn transfer batch'
).split(' ');
const MARKS = [' ', ' ', ' ', '.', '(', ')', ': ', ' = ', ' <- ', '\n    ', '\n        ', ', ', '&', '@'];

/**
 * Blocks as those of the dense profile, but for scripts: each transaction has a text of its own, of words at random. Asked
 * for height after height.
 */
export function textBlocks(seed: number): (height: number) => BlockEntry {
  const random = seededRandom(seed);
  const below = (bound: number): number => Math.floor(random.next() * bound);
  const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => below(256)));
  const script = (): Buffer => {
    let text = '';
    while (text.length < SCRIPT_BYTES) text += `${WORDS[below(WORDS.length)]}${MARKS[below(MARKS.length)]}`;
    return Buffer.from(text);
  };
  const transaction = (): Uint8Array => {
    const payer = bytes(8);
    return encodeTransaction({
      script: script(),
      arguments: [Buffer.from(`{"type":"UFix64","value":"${below(1e6)}.${below(1e8)}"}`)],
      referenceBlockId: bytes(32),
      gasLimit: 9999n,
      proposalKey: { address: payer, keyId: 1, sequenceNumber: BigInt(below(100_000)) },
      payer,
      authorizers: [payer],
      payloadSignatures: [],
      envelopeSignatures: [
        { address: payer, keyId: 1, signature: bytes(64), extensionData: new Uint8Array() },
      ],
    });
  };
  let parentId = ZERO_ID;
  return (height) => {
    const collections = Array.from({ length: 5 }, () => {
      const transactions = Array.from({ length: 10 }, transaction);
      const id = collectionIdOf(Buffer.concat(transactions.map(transactionId)));
      return verifyCollection(id, splitCollection(encodeFullCollection(transactions)));
    });
    const encoded = encodeBlock({
      ...{ id: toIdentifier(bytes(32)), parentId, height },
      timestamp: { seconds: 1_700_000_000n + BigInt(height), nanos: 0 },
      guarantees: collections.map(({ id }) => ({
        ...{ collectionId: id, referenceBlockId: bytes(32), signature: bytes(48), signatures: [] },
        ...{ signerIds: [], signerIndices: bytes(3), clusterChainId: Buffer.from('cluster-0') },
      })),
      signatures: [bytes(48)],
    });
    const block = decodeBlockMessage(encoded);
    parentId = block.id;
    return { block, collections };
  };
}

const LENGTH_BYTES = 4;

/**
 * Writes so many blocks with their verified collections into one file: to be made once, before any clock starts, and read by
 * several writers. Returns the bytes of the collections as a node sends them.
 */
export function writeBlockFile(path: string, heights: number, at: (height: number) => BlockEntry): number {
  const file = openSync(path, 'w');
  let payloadBytes = 0;
  for (let index = 0; index < heights; index += 1) {
    const { block, collections } = at(FIRST_HEIGHT + index);
    payloadBytes += collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
    const bytes = serialize([block.encoded, collections]);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32LE(bytes.length);
    writeSync(file, Buffer.concat([length, bytes]));
  }
  fsyncSync(file);
  closeSync(file);
  return payloadBytes;
}

/** Reads them in order, one with every call. Each block has memory of its own. */
export function readBlockFile(path: string): () => BlockEntry {
  const file = openSync(path, 'r');
  const read = (length: number): Buffer => {
    const bytes = Buffer.allocUnsafeSlow(length);
    if (readSync(file, bytes) !== length) throw new Error('the file of blocks ends too early');
    return bytes;
  };
  return () => {
    const [encoded, collections] = deserialize(read(read(LENGTH_BYTES).readUInt32LE())) as [
      Uint8Array,
      VerifiedCollection[],
    ];
    return { block: decodeBlockMessage(encoded), collections };
  };
}
