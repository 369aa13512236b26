import { splitCollection } from '../entities/fullCollection.js';
import { toIdentifier } from '../ids/identifiers.js';
import type { Identifier } from '../types.js';
import { LENGTH_DELIMITED, WireReader } from '../wire/WireReader.js';
import { messageField } from './messageField.js';

/**
 * Decodes a `flow.access.FullCollectionResponse` down to the wire bytes of its transactions, which are views of the
 * message. Nothing is verified. Expected errors: `WireError`.
 */
export function decodeFullCollectionResponse(message: Uint8Array): Uint8Array[] {
  return splitCollection(message);
}

/** The transaction ids of a `flow.access.CollectionResponse` (light collection), in order. Expected errors: `WireError`. */
export function decodeCollectionResponse(message: Uint8Array): Identifier[] {
  const reader = new WireReader(messageField(message, 'collection'));
  const ids: Identifier[] = [];
  while (reader.next()) {
    if (reader.field === 2 && reader.wireType === LENGTH_DELIMITED) ids.push(toIdentifier(reader.view()));
    else reader.skip();
  }
  return ids;
}

/** The wire bytes of the transaction in a `flow.access.TransactionResponse`. Expected errors: `WireError`. */
export function decodeTransactionResponse(message: Uint8Array): Uint8Array {
  return messageField(message, 'transaction');
}
