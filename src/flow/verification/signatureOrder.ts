import { decodeTransaction, encodeTransaction } from '../entities/transaction.js';
import type { Transaction, TransactionSignature } from '../types.js';

const ADDRESS_HEX_DIGITS = 16;

/** The transactions with their signatures sorted; `undefined` when that changes none of them. */
export function sortedWires(wires: readonly Uint8Array[]): Uint8Array[] | undefined {
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
