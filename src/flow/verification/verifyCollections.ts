import { toAddress } from '../entities/accounts.js';
import { fullCollectionSize, splitCollection, transactionAt } from '../entities/fullCollection.js';
import { writeFullCollection } from '../entities/fullCollection.js';
import {
  canonicalTransaction,
  checkTransactionSize,
  decodeTransaction,
  encodeTransaction,
} from '../entities/transaction.js';
import { IDENTIFIER_BYTES } from '../ids/identifiers.js';
import { VerificationMemory } from '../ids/TransactionHasher.js';
import type {
  BlockExecutionData,
  FinalizedBlock,
  Identifier,
  Transaction,
  TransactionSignature,
  VerifiedCollection,
} from '../types.js';
import { asBuffer } from '../wire/bytes.js';
import { MAX_FIELDS } from '../wire/WireReader.js';
import { WireError } from '../WireError.js';
import { InvalidCollectionError } from './InvalidCollectionError.js';

const NO_BYTES = new Uint8Array();
const NO_ADDRESS = toAddress(NO_BYTES);

/**
 * Checks that these transactions, in this order, are the collection with this id, and brings them into canonical
 * encoding. Canonical bytes are kept as they are; others lose unknown fields, repeated singular fields, explicit
 * defaults and non-minimal numbers, and keep every field value.
 *
 * Nodes sort a transaction's signatures by signer and key before they hash it. Wire order must be tried first: two
 * early sporks sorted inconsistently, and their transactions hash to their ids only in the order in which nodes hold
 * them. If the collection does not match, the sorted order is tried, and stored if it matches.
 *
 * Not covered by the id, and so not proven: whether an empty proposal key is present; the address of a signature whose
 * signer is none of proposer, payer and authorizers; extension data of a single zero byte; leading zeros of an address
 * and all but the last eight bytes of a longer one; trailing zeros of a reference block id and all but its first 32
 * bytes.
 *
 * Expected errors: `InvalidCollectionError` (`malformed`, `id_mismatch`).
 */
export function verifyCollection(
  expectedId: Identifier,
  transactions: readonly Uint8Array[],
  memory: VerificationMemory = new VerificationMemory(),
): VerifiedCollection {
  const verifier = new CollectionVerifier(memory, [transactions], 1);
  const collection = verifier.verify(expectedId, transactions);
  if (collection === undefined) throw verifier.mismatch(expectedId);
  return collection;
}

/**
 * The collections of a block from its execution data. A chunk after those of the guarantees is the system chunk, whose
 * transactions no guarantee covers; it is dropped. Not every network has one: the emulator executes the guaranteed
 * collections and nothing else. Data without it are accepted if all chunks are proven to be those collections. A peer
 * never sends it.
 *
 * Expected errors: `InvalidCollectionError`: `wrong_block` for another block's data; `wrong_count` for any other number
 * of chunks, or for that of the guarantees where they are not the guaranteed collections (then one of those is missing,
 * not the system chunk); `wrong_order` for a collection of this block in another's place; and all of
 * `verifyCollection`.
 */
export function verifyBlockCollections(
  block: FinalizedBlock,
  data: BlockExecutionData,
  memory: VerificationMemory = new VerificationMemory(),
): VerifiedCollection[] {
  if (data.height !== block.height || data.blockId !== block.id) {
    throw new InvalidCollectionError(
      'wrong_block',
      `data of block ${data.blockId} at height ${data.height} were given for block ${block.id} at height ${block.height}`,
    );
  }
  const expected = block.collectionIds;
  const isWithoutSystem = data.isWithoutSystem === true;
  const hasSystemChunk = !isWithoutSystem && data.chunks.length === expected.length + 1;
  if (!hasSystemChunk && data.chunks.length !== expected.length) throw wrongCount(block, data);
  const verifier = new CollectionVerifier(memory, data.chunks, expected.length);
  return expected.map((expectedId, index) => {
    const collection = verifier.verify(expectedId, data.chunks[index] ?? []);
    if (collection !== undefined) return collection;
    // One of them may be the system chunk, and another one be missing.
    if (!hasSystemChunk && !isWithoutSystem) throw wrongCount(block, data);
    if (verifier.lastId !== undefined && expected.includes(verifier.lastId)) {
      throw new InvalidCollectionError(
        'wrong_order',
        `chunk ${index} of block ${block.id} holds collection ${verifier.lastId}, which belongs at another place`,
      );
    }
    throw verifier.mismatch(expectedId);
  });
}

function wrongCount(block: FinalizedBlock, { chunks }: BlockExecutionData): InvalidCollectionError {
  const expected = block.collectionIds.length;
  const held = `the data holds ${chunks.length} chunks`;
  const why =
    chunks.length === expected
      ? `${held}, which are not these collections`
      : `${held}, neither one for each nor these and the system chunk`;
  return new InvalidCollectionError(
    'wrong_count',
    `block ${block.id} guarantees ${expected} collections, ${why}`,
  );
}

export interface IdentifiedTransaction {
  readonly id: Identifier;
  /** The wire form, a view of the collection. */
  readonly encoded: Uint8Array;
}

/** The transactions of a full collection, in order, with their ids. Expected errors: `WireError`. */
export function identifyTransactions(collection: Uint8Array): IdentifiedTransaction[] {
  const transactions = splitCollection(collection);
  const hashed = hash(transactions);
  return transactions.map((encoded, index) => ({ id: transactionAt(hashed, index).id, encoded }));
}

/**
 * The id of a transaction: SHA3-256 of its RLP form, from its wire bytes, canonical or not.
 * Expected errors: `WireError`.
 */
export function transactionId(wire: Uint8Array): Buffer {
  return asBuffer(hash([wire]).transactionIds);
}

function hash(transactions: readonly Uint8Array[]): VerifiedCollection {
  return new CollectionVerifier(new VerificationMemory(), [transactions], 1).hash(transactions);
}

/** Hashes transactions, and brings them into the encoding and the order in which they are a collection. */
class CollectionVerifier {
  /** What the last verified transactions hash to in wire order. */
  lastId: Identifier | undefined;
  readonly #memory: VerificationMemory;
  /**
   * One buffer for all collections verified in a call: allocating each of them costs more than all other work besides
   * hashing.
   */
  readonly #bytes: Buffer;
  readonly #ranges: Uint32Array;
  #usedBytes = 0;
  #usedRanges = 0;

  /** With room for the first `count` chunks, provided that they are canonical. */
  constructor(memory: VerificationMemory, chunks: readonly (readonly Uint8Array[])[], count: number) {
    let bytes = 0;
    let transactions = 0;
    for (let index = 0; index < count; index++) {
      const chunk = chunks[index] ?? [];
      bytes += fullCollectionSize(chunk);
      transactions += chunk.length;
    }
    this.#memory = memory;
    this.#bytes = Buffer.allocUnsafeSlow(bytes + transactions * IDENTIFIER_BYTES);
    this.#ranges = new Uint32Array(2 * transactions);
  }

  /** Expected errors: `InvalidCollectionError` (`malformed`). */
  verify(expectedId: Identifier, transactions: readonly Uint8Array[]): VerifiedCollection | undefined {
    try {
      const received = this.hash(transactions);
      this.lastId = received.id;
      if (received.id === expectedId) return received;
      if (transactions.length === 0) return undefined;
      const sorted = sortedWires(splitCollection(received.encoded));
      // Unchanged by sorting: hashing again would only let a malicious node double our work.
      if (sorted === undefined) return undefined;
      const reordered = this.hash(sorted);
      return reordered.id === expectedId ? reordered : undefined;
    } catch (error) {
      if (error instanceof WireError) {
        throw new InvalidCollectionError('malformed', error.message, { cause: error });
      }
      throw error;
    }
  }

  /** The error for transactions that are not the collection they were given for, the last that were verified. */
  mismatch(expectedId: Identifier): InvalidCollectionError {
    return new InvalidCollectionError(
      'id_mismatch',
      `the transactions hash to collection ${String(this.lastId)}, not to ${expectedId}`,
    );
  }

  /** What the transactions are in canonical encoding. Expected errors: `WireError`. */
  hash(transactions: readonly Uint8Array[]): VerifiedCollection {
    for (const wire of transactions) checkTransactionSize(wire);
    const collection =
      this.#hashCanonical(transactions) ?? this.#hashCanonical(transactions.map(canonicalTransaction));
    if (collection === undefined) throw new Error('a re-encoded transaction is not canonical');
    return collection;
  }

  /** `undefined` when one of the transactions is not canonical. */
  #hashCanonical(transactions: readonly Uint8Array[]): VerifiedCollection | undefined {
    const size = fullCollectionSize(transactions);
    const hasher = this.#memory.hasherFor(size);
    const { rlp } = hasher;
    rlp.prepareSource(size);
    const ranges = this.#takeRanges(transactions.length);
    writeFullCollection(rlp.buffer, transactions, ranges);
    const transactionIds = this.#take(transactions.length * IDENTIFIER_BYTES);
    if (!hasher.run(ranges, transactionIds)) return undefined;
    const encoded = this.#take(size);
    rlp.buffer.copy(encoded, 0, 0, size);
    return { id: hasher.collectionId(), encoded, transactionIds, ranges };
  }

  /** The next bytes; or, for a collection that is re-encoded or retried, a buffer of its own. */
  #take(bytes: number): Buffer {
    const from = this.#usedBytes;
    if (bytes > this.#bytes.length - from) return Buffer.allocUnsafeSlow(bytes);
    this.#usedBytes = from + bytes;
    return this.#bytes.subarray(from, this.#usedBytes);
  }

  /** Likewise, the ranges of this many transactions. */
  #takeRanges(transactions: number): Uint32Array {
    const from = this.#usedRanges;
    if (2 * transactions > this.#ranges.length - from) return new Uint32Array(2 * transactions);
    this.#usedRanges = from + 2 * transactions;
    return this.#ranges.subarray(from, this.#usedRanges);
  }
}

/** The transactions with their signatures sorted; `undefined` when that changes none of them. */
function sortedWires(wires: readonly Uint8Array[]): Uint8Array[] | undefined {
  const sorted = wires.map((wire) => {
    const transaction = decodeTransaction(wire, { mostFields: MAX_FIELDS });
    if (transaction.payloadSignatures.length < 2 && transaction.envelopeSignatures.length < 2) return wire;
    return encodeTransaction(withSortedSignatures(transaction));
  });
  const isSorted = sorted.every((wire, index) => Buffer.compare(wire, wires[index] ?? NO_BYTES) === 0);
  return isSorted ? undefined : sorted;
}

/**
 * The transaction with its signatures in the order in which Flow's nodes hash them: by signer index, then by key id.
 * Signatures of unknown signers (index -1) come first.
 */
function withSortedSignatures(transaction: Transaction): Transaction {
  const { proposalKey, payer, authorizers } = transaction;
  const first = [proposalKey?.address ?? NO_BYTES, payer]
    .map(toAddress)
    .filter((each) => each !== NO_ADDRESS);
  const distinct = new Set([...first, ...authorizers.map(toAddress)]);
  const signers = new Map([...distinct].map((address, index) => [address, index]));
  const sorted = (signatures: readonly TransactionSignature[]): TransactionSignature[] =>
    signatures
      .map((signature) => ({ signature, signer: signers.get(toAddress(signature.address)) ?? -1 }))
      .sort((a, b) => a.signer - b.signer || a.signature.keyId - b.signature.keyId)
      .map(({ signature }) => signature);
  return {
    ...transaction,
    payloadSignatures: sorted(transaction.payloadSignatures),
    envelopeSignatures: sorted(transaction.envelopeSignatures),
  };
}
