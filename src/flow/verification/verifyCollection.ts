import type { Identifier, VerifiedCollection } from '../types.js';
import { CollectionBuffer } from './CollectionBuffer.js';
import { CollectionVerifier } from './CollectionVerifier.js';
import { VerificationMemory } from './VerificationMemory.js';

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
  const verifier = new CollectionVerifier(memory, new CollectionBuffer([transactions], 1));
  const collection = verifier.verify(expectedId, transactions);
  if (collection === undefined) throw verifier.mismatch(expectedId);
  return collection;
}
