import { WireError } from '../WireError.js';
import type { Transaction, TransactionSignature } from '../types.js';
import { RequestFields } from '../wire/RequestFields.js';
import { MAX_FIELDS } from '../wire/WireReader.js';
import { WireWriter } from '../wire/WireWriter.js';

/**
 * The largest transaction we decode. Flow's own limit is 1.5 MB, and its nodes accept no request above 4 MiB; a larger
 * one can only be an attack.
 */
const MAX_TRANSACTION_BYTES = 4 * 1024 * 1024;

/** Expected errors: `WireError`. */
export function checkTransactionSize(wire: Uint8Array): void {
  if (wire.length > MAX_TRANSACTION_BYTES) {
    throw new WireError(`a transaction has more than ${MAX_TRANSACTION_BYTES} bytes`);
  }
}

/**
 * Decodes a `flow.entities.Transaction` like any protobuf reader: fields in any order, the last of a repeated singular
 * field wins, repeated singular messages are merged, unknown fields are skipped. The byte fields of the result are
 * views of `wire`. Expected errors: `WireError`.
 */
export function decodeTransaction(
  wire: Uint8Array,
  { mostFields = wire.length }: { readonly mostFields?: number } = {},
): Transaction {
  checkTransactionSize(wire);
  const fields = new RequestFields(wire, mostFields);
  const key = fields.message(5);
  return {
    script: fields.bytes(1),
    arguments: fields.all(2),
    referenceBlockId: fields.bytes(3),
    gasLimit: fields.number(4),
    proposalKey: key && { address: key.bytes(1), keyId: key.uint32(2), sequenceNumber: key.number(3) },
    payer: fields.bytes(6),
    authorizers: fields.all(7),
    payloadSignatures: fields.all(8).map(decodeSignature),
    envelopeSignatures: fields.all(9).map(decodeSignature),
  };
}

function decodeSignature(wire: Uint8Array): TransactionSignature {
  const fields = new RequestFields(wire);
  return {
    address: fields.bytes(1),
    keyId: fields.uint32(2),
    signature: fields.bytes(3),
    extensionData: fields.bytes(4),
  };
}

/** The canonical wire form of a transaction, in a buffer of its own. */
export function encodeTransaction(transaction: Transaction): Buffer {
  const writer = new WireWriter()
    .bytes(1, transaction.script)
    .elements(2, transaction.arguments)
    .bytes(3, transaction.referenceBlockId)
    .number(4, transaction.gasLimit);
  const key = transaction.proposalKey;
  if (key !== undefined) {
    const encodedKey = new WireWriter()
      .bytes(1, key.address)
      .number(2, key.keyId)
      .number(3, key.sequenceNumber)
      .finish();
    writer.element(5, encodedKey);
  }
  return writer
    .bytes(6, transaction.payer)
    .elements(7, transaction.authorizers)
    .elements(8, transaction.payloadSignatures.map(encodeSignature))
    .elements(9, transaction.envelopeSignatures.map(encodeSignature))
    .finish();
}

function encodeSignature(signature: TransactionSignature): Buffer {
  return new WireWriter()
    .bytes(1, signature.address)
    .number(2, signature.keyId)
    .bytes(3, signature.signature)
    .bytes(4, signature.extensionData)
    .finish();
}

/** The same transaction in canonical encoding, in a buffer of its own. Expected errors: `WireError`. */
export function canonicalTransaction(wire: Uint8Array): Buffer {
  return encodeTransaction(decodeTransaction(wire, { mostFields: MAX_FIELDS }));
}
