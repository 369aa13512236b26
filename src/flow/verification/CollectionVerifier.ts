import { fullCollectionSize, splitCollection, writeFullCollection } from '../entities/fullCollection.js';
import {
  canonicalTransaction,
  checkTransactionSize,
  decodeTransaction,
  encodeTransaction,
} from '../entities/transaction.js';
import { collectionIdOfItems } from '../ids/collectionId.js';
import { IDENTIFIER_BYTES } from '../ids/identifiers.js';
import type { Identifier, Transaction, TransactionSignature, VerifiedCollection } from '../types.js';
import { WireError } from '../WireError.js';
import type { CollectionBuffer } from './CollectionBuffer.js';
import { InvalidCollectionError } from './InvalidCollectionError.js';
import type { VerificationMemory } from './VerificationMemory.js';

/** Hashes transactions, and brings them into the encoding and the order in which they are a collection. */
export class CollectionVerifier {
  /** What the last verified transactions hash to in wire order. */
  lastId: Identifier | undefined;
  readonly #memory: VerificationMemory;
  readonly #buffer: CollectionBuffer;

  constructor(memory: VerificationMemory, buffer: CollectionBuffer) {
    this.#memory = memory;
    this.#buffer = buffer;
  }

  /** Expected errors: `InvalidCollectionError` (`malformed`). */
  verify(expectedId: Identifier, transactions: readonly Uint8Array[]): VerifiedCollection | undefined {
    try {
      const received = this.#hash(transactions);
      this.lastId = received.id;
      if (received.id === expectedId) return received;
      if (transactions.length === 0) return undefined;
      const sorted = sortedWires(splitCollection(received.encoded));
      // Unchanged by sorting: hashing again would only let a liar double our work.
      if (sorted === undefined) return undefined;
      const reordered = this.#hash(sorted);
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

  #hash(transactions: readonly Uint8Array[]): VerifiedCollection {
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
    const ranges = this.#buffer.takeRanges(transactions.length);
    writeFullCollection(rlp.buffer, transactions, ranges);
    const transactionIds = this.#buffer.take(transactions.length * IDENTIFIER_BYTES);
    if (!hasher.run(ranges, transactionIds)) return undefined;
    const encoded = this.#buffer.take(size);
    rlp.buffer.copy(encoded, 0, 0, size);
    return { id: collectionIdOfItems(hasher.idItems, rlp), encoded, transactionIds, ranges };
  }
}

const ADDRESS_HEX_DIGITS = 16;

/** The transactions with their signatures sorted; `undefined` when that changes none of them. */
function sortedWires(wires: readonly Uint8Array[]): Uint8Array[] | undefined {
  const sorted = wires.map(sortedWire);
  return sorted.every((wire, index) => wire === wires[index]) ? undefined : sorted;
}

/** Returns `wire` itself when it is sorted already. */
function sortedWire(wire: Uint8Array): Uint8Array {
  const transaction = decodeTransaction(wire);
  if (transaction.payloadSignatures.length < 2 && transaction.envelopeSignatures.length < 2) return wire;
  const encoded = encodeTransaction(withSortedSignatures(transaction));
  return encoded.equals(wire) ? wire : encoded;
}

/**
 * The transaction with its signatures in the order in which Flow's nodes hash them: by signer index, then by key id.
 * Signatures of unknown signers (index -1) come first.
 */
function withSortedSignatures(transaction: Transaction): Transaction {
  const signers = new Map<string, number>();
  const add = (address: string): void => {
    if (!signers.has(address)) signers.set(address, signers.size);
  };
  const zero = '0'.repeat(ADDRESS_HEX_DIGITS);
  for (const address of [transaction.proposalKey?.address, transaction.payer]) {
    const signer = paddedAddress(address);
    if (signer !== zero) add(signer);
  }
  for (const address of transaction.authorizers) add(paddedAddress(address));
  const sorted = (signatures: readonly TransactionSignature[]): TransactionSignature[] =>
    signatures
      .map((signature) => ({ signature, signer: signers.get(paddedAddress(signature.address)) ?? -1 }))
      .sort((a, b) => a.signer - b.signer || a.signature.keyId - b.signature.keyId)
      .map(({ signature }) => signature);
  return {
    ...transaction,
    payloadSignatures: sorted(transaction.payloadSignatures),
    envelopeSignatures: sorted(transaction.envelopeSignatures),
  };
}

function paddedAddress(address: Uint8Array | undefined): string {
  const hex = address === undefined ? '' : Buffer.from(address).toString('hex');
  return hex.slice(-ADDRESS_HEX_DIGITS).padStart(ADDRESS_HEX_DIGITS, '0');
}
