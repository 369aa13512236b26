import { IDENTIFIER_BYTES } from '../ids/identifiers.js';
import { canonicalTransaction, checkTransactionSize } from '../entities/transaction.js';
import { TransactionHasher } from '../ids/TransactionHasher.js';

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
