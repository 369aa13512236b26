import { decodeTransaction } from '../../flow/index.js';
import type { Identifier, TransactionSignature } from '../../flow/index.js';
import {
  address,
  arrayOf,
  bytes,
  decimal,
  identifier,
  link,
  named,
  note,
  object,
  selfLink,
} from '../schema.js';
import type { Described } from '../schema.js';
import { addressHex, base64, identifierHex } from './scalars.js';

const signatureSchema = named(
  'Signature',
  object({ address: address, key_index: decimal, signature: bytes }, { extension_data: bytes }),
);

const bodyFields = {
  id: identifier,
  script: bytes,
  arguments: arrayOf(bytes),
  reference_block_id: identifier,
  gas_limit: decimal,
  payer: address,
  proposal_key: named(
    'ProposalKey',
    object({ address: address, key_index: decimal, sequence_number: decimal }),
  ),
  authorizers: arrayOf(address),
  payload_signatures: arrayOf(signatureSchema),
  envelope_signatures: arrayOf(signatureSchema),
};

/** Flow's REST form of a transaction, without links. */
export const transactionBodySchema = named('TransactionBody', object(bodyFields));
type RestTransactionBody = Described<typeof transactionBodySchema>;

export const transactionSchema = named(
  'Transaction',
  object({
    ...bodyFields,
    _expandable: object({
      result: note('Where an access node has the result. It is not indexed.', link),
    }),
    _links: selfLink,
  }),
);

/** `encoded` is the wire form of the transaction, `id` its id (taken from the index, not recomputed). */
export function transactionBody(id: Identifier, encoded: Uint8Array): RestTransactionBody {
  const transaction = decodeTransaction(encoded);
  const { proposalKey } = transaction;
  return {
    id,
    script: base64(transaction.script),
    arguments: transaction.arguments.map(base64),
    reference_block_id: identifierHex(transaction.referenceBlockId),
    gas_limit: String(transaction.gasLimit),
    payer: addressHex(transaction.payer),
    proposal_key: {
      address: addressHex(proposalKey?.address ?? new Uint8Array()),
      key_index: String(proposalKey?.keyId ?? 0),
      sequence_number: String(proposalKey?.sequenceNumber ?? 0),
    },
    authorizers: transaction.authorizers.map(addressHex),
    payload_signatures: transaction.payloadSignatures.map(signature),
    envelope_signatures: transaction.envelopeSignatures.map(signature),
  };
}

export function restTransaction(id: Identifier, encoded: Uint8Array): Described<typeof transactionSchema> {
  return {
    ...transactionBody(id, encoded),
    _expandable: { result: `/v1/transaction_results/${id}` },
    _links: { _self: transactionLink(id) },
  };
}

export function transactionLink(id: Identifier): string {
  return `/v1/transactions/${id}`;
}

function signature(from: TransactionSignature): Described<typeof signatureSchema> {
  return {
    address: addressHex(from.address),
    key_index: String(from.keyId),
    signature: base64(from.signature),
    ...(from.extensionData.length > 0 ? { extension_data: base64(from.extensionData) } : {}),
  };
}
