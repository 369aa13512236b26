import { asBuffer } from '../wire/bytes.js';
import { WireError } from '../WireError.js';
import type { Identifier } from '../types.js';
import { IDENTIFIER_BYTES, sha3Identifier } from './identifiers.js';
import { RlpWriter } from './RlpWriter.js';
import { ID_ITEM_HEADER } from './TransactionHasher.js';

const RLP_HEADER_BYTES_MAX = 5;

/**
 * The id of a collection from the ids of its transactions, concatenated in order: SHA3-256 of RLP of a list that holds
 * one list of 32-byte strings. Expected errors: `WireError` when the length is no multiple of 32.
 */
export function collectionIdOf(transactionIds: Uint8Array): Identifier {
  if (transactionIds.length % IDENTIFIER_BYTES !== 0) throw new WireError('a transaction id is cut short');
  const ids = asBuffer(transactionIds);
  let items = '';
  for (let from = 0; from < ids.length; from += IDENTIFIER_BYTES) {
    items += ID_ITEM_HEADER + ids.toString('latin1', from, from + IDENTIFIER_BYTES);
  }
  return collectionIdOfItems(items, new RlpWriter(items.length + 2 * RLP_HEADER_BYTES_MAX));
}

/** Like `collectionIdOf`, from the RLP items of the ids, one character per byte. Overwrites what the writer held. */
export function collectionIdOfItems(items: string, rlp: RlpWriter): Identifier {
  rlp.clear();
  rlp.reserve(items.length + 2 * RLP_HEADER_BYTES_MAX);
  const end = rlp.position;
  rlp.characters(items);
  rlp.list(end);
  rlp.list(end);
  return sha3Identifier(rlp.written(0, rlp.writtenBytes));
}
