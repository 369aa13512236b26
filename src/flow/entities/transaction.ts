import { WireError } from '../WireError.js';
import type { Transaction, TransactionSignature } from '../types.js';
import { LENGTH_DELIMITED, VARINT, WireReader } from '../wire/WireReader.js';
import { WireWriter } from '../wire/WireWriter.js';

/**
 * The largest transaction we decode. Flow's own limit is 1.5 MB, and its nodes accept no request above 4 MiB; a larger
 * one can only be an attack.
 */
const MAX_TRANSACTION_BYTES = 4 * 1024 * 1024;

const EMPTY = Buffer.alloc(0);

/** Expected errors: `WireError`. */
export function checkTransactionSize(wire: Uint8Array): void {
  if (wire.length > MAX_TRANSACTION_BYTES) {
    throw new WireError(`a transaction has more than ${MAX_TRANSACTION_BYTES} bytes`);
  }
}

type ProposalKey = NonNullable<Transaction['proposalKey']>;

/**
 * Decodes a `flow.entities.Transaction` like any protobuf reader: fields in any order, the last of a repeated singular
 * field wins, repeated singular messages are merged, unknown fields are skipped. The byte fields of the result are
 * views of `wire`. Expected errors: `WireError`.
 */
export function decodeTransaction(wire: Uint8Array): Transaction {
  checkTransactionSize(wire);
  const reader = new WireReader(wire);
  let script: Uint8Array = EMPTY;
  const args: Uint8Array[] = [];
  let referenceBlockId: Uint8Array = EMPTY;
  let gasLimit = 0n;
  let proposalKey: ProposalKey | undefined;
  let payer: Uint8Array = EMPTY;
  const authorizers: Uint8Array[] = [];
  const payloadSignatures: TransactionSignature[] = [];
  const envelopeSignatures: TransactionSignature[] = [];
  while (reader.next()) {
    if (reader.wireType === VARINT && reader.field === 4) {
      gasLimit = reader.uint64();
      continue;
    }
    if (reader.wireType !== LENGTH_DELIMITED) {
      reader.skip();
      continue;
    }
    switch (reader.field) {
      case 1:
        script = reader.view();
        break;
      case 2:
        args.push(reader.view());
        break;
      case 3:
        referenceBlockId = reader.view();
        break;
      case 5:
        proposalKey = decodeProposalKey(reader, proposalKey);
        break;
      case 6:
        payer = reader.view();
        break;
      case 7:
        authorizers.push(reader.view());
        break;
      case 8:
        payloadSignatures.push(decodeSignature(reader));
        break;
      case 9:
        envelopeSignatures.push(decodeSignature(reader));
        break;
      default:
        reader.skip();
    }
  }
  return {
    script,
    arguments: args,
    referenceBlockId,
    gasLimit,
    proposalKey,
    payer,
    authorizers,
    payloadSignatures,
    envelopeSignatures,
  };
}

/** Reads the message in the field at the cursor. */
function decodeProposalKey(reader: WireReader, earlier: ProposalKey | undefined): ProposalKey {
  const outerEnd = reader.enter();
  let address = earlier?.address ?? EMPTY;
  let keyId = earlier?.keyId ?? 0;
  let sequenceNumber = earlier?.sequenceNumber ?? 0n;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) address = reader.view();
    else if (reader.field === 2 && reader.wireType === VARINT) keyId = reader.uint32();
    else if (reader.field === 3 && reader.wireType === VARINT) sequenceNumber = reader.uint64();
    else reader.skip();
  }
  reader.end = outerEnd;
  return { address, keyId, sequenceNumber };
}

/** Reads the message in the field at the cursor. */
function decodeSignature(reader: WireReader): TransactionSignature {
  const outerEnd = reader.enter();
  let address: Uint8Array = EMPTY;
  let keyId = 0;
  let signature: Uint8Array = EMPTY;
  let extensionData: Uint8Array = EMPTY;
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === LENGTH_DELIMITED) address = reader.view();
    else if (reader.field === 2 && reader.wireType === VARINT) keyId = reader.uint32();
    else if (reader.field === 3 && reader.wireType === LENGTH_DELIMITED) signature = reader.view();
    else if (reader.field === 4 && reader.wireType === LENGTH_DELIMITED) extensionData = reader.view();
    else reader.skip();
  }
  reader.end = outerEnd;
  return { address, keyId, signature, extensionData };
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
  return encodeTransaction(decodeTransaction(wire));
}
