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

const COLLECTIONS = 5;
const TRANSACTIONS = 10;
const SCRIPT_BYTES = 368;

/** Words that scripts are made of, and names as they are found in them. */
const WORDS =
  'transaction prepare execute signer account auth Storage BorrowValue Capabilities let var if else for in while return ' +
  'self import from pub access all contract resource struct interface event emit create destroy move copy nil panic ' +
  'FlowToken FungibleToken NonFungibleToken MetadataViews ViewResolver Vault Provider Receiver Balance Collection NFT ' +
  'withdraw deposit amount to recipient sender vaultRef receiverRef capability borrow publish issue unpublish exists ' +
  'storagePath publicPath privatePath UFix64 Address String UInt64 Bool marketplace listing storefront price royalty cut ' +
  'commission buyer seller sale item purchase offer bid auction metadata traits edition serial mint burn transfer batch';
const MARKS = [' ', ' ', ' ', '.', '(', ')', ': ', ' = ', ' <- ', '\n    ', '\n        ', ', ', '&', '@'];

/** Blocks as those of the dense profile, but for scripts: each transaction has a text of its own, of words at random. */
export class TextMaker {
  readonly #random;
  readonly #words = WORDS.split(' ');
  #parent = ZERO_ID;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  at(height: number): BlockEntry {
    const collections = Array.from({ length: COLLECTIONS }, () => this.#collection());
    const encoded = encodeBlock({
      id: this.#id(),
      parentId: this.#parent,
      height,
      timestamp: { seconds: 1_700_000_000n + BigInt(height), nanos: 0 },
      guarantees: collections.map(({ id }) => ({
        collectionId: id,
        referenceBlockId: this.#bytes(32),
        signature: this.#bytes(48),
        signatures: [],
        signerIds: [],
        signerIndices: this.#bytes(3),
        clusterChainId: Buffer.from('cluster-0'),
      })),
      signatures: [this.#bytes(48)],
    });
    const block = decodeBlockMessage(encoded);
    this.#parent = block.id;
    return { block, collections };
  }

  #collection(): VerifiedCollection {
    const transactions = Array.from({ length: TRANSACTIONS }, () => this.#transaction());
    const encoded = encodeFullCollection(transactions);
    const id = collectionIdOf(Buffer.concat(transactions.map(transactionId)));
    return verifyCollection(id, splitCollection(encoded));
  }

  #transaction(): Uint8Array {
    const payer = this.#bytes(8);
    return encodeTransaction({
      script: this.#script(),
      arguments: [Buffer.from(`{"type":"UFix64","value":"${this.#below(1e6)}.${this.#below(1e8)}"}`)],
      referenceBlockId: this.#bytes(32),
      gasLimit: 9999n,
      proposalKey: { address: payer, keyId: 1, sequenceNumber: BigInt(this.#below(100_000)) },
      payer,
      authorizers: [payer],
      payloadSignatures: [],
      envelopeSignatures: [
        { address: payer, keyId: 1, signature: this.#bytes(64), extensionData: new Uint8Array() },
      ],
    });
  }

  #script(): Buffer {
    let text = '';
    while (text.length < SCRIPT_BYTES) {
      text += this.#words[this.#below(this.#words.length)] ?? '';
      text += MARKS[this.#below(MARKS.length)] ?? '';
    }
    return Buffer.from(text);
  }

  #below(bound: number): number {
    return Math.floor(this.#random.next() * bound);
  }

  #bytes(length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length);
    for (let at = 0; at < length; at += 1) bytes[at] = this.#below(256);
    return bytes;
  }

  #id() {
    return toIdentifier(this.#bytes(32));
  }
}
