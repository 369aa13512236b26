import { IDENTIFIER_BYTES } from './ids/identifiers.js';
import { checkTransactionSize, decodeTransaction, encodeTransaction } from './transaction.js';
import { TransactionHasher } from './ids/TransactionHasher.js';
import type { Transaction, TransactionSignature } from './types.js';

const ADDRESS_HEX_DIGITS = 16;
/** Room for the RLP overhead of an ordinary transaction; grows when needed. */
const WORKING_BYTES = 512;

/**
 * The id of a transaction: SHA3-256 of its RLP form, from its wire bytes, canonical or not.
 * Expected errors: `WireError`.
 */
export function transactionId(wire: Uint8Array): Buffer {
  const id = Buffer.alloc(IDENTIFIER_BYTES);
  if (!hashWire(wire, id) && !hashWire(canonicalTransaction(wire), id)) {
    throw new Error('a re-encoded transaction is not canonical');
  }
  return id;
}

function hashWire(wire: Uint8Array, id: Buffer): boolean {
  checkTransactionSize(wire);
  const hasher = new TransactionHasher(2 * wire.length + WORKING_BYTES);
  hasher.rlp.prepareSource(wire.length);
  hasher.rlp.buffer.set(wire);
  return hasher.run(Uint32Array.of(0, wire.length), id);
}

/** The same transaction in canonical encoding, in a buffer of its own. Expected errors: `WireError`. */
export function canonicalTransaction(wire: Uint8Array): Buffer {
  return encodeTransaction(decodeTransaction(wire));
}

/**
 * The transaction with its signatures in the order in which Flow's nodes hash them: by signer index, then by key id.
 * Signatures of unknown signers (index -1) come first.
 */
export function withSortedSignatures(transaction: Transaction): Transaction {
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
