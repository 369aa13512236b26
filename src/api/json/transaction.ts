import { decodeTransaction, paddedIdentifier, toAddress } from '../../flow/index.js';
import type { Identifier, TransactionSignature } from '../../flow/index.js';
import * as t from '../schema.js';
import { base64 } from './scalars.js';

const signatureSchema = t.named(
  'Signature',
  t.object({ address: t.address, key_index: t.decimal, signature: t.bytes }, { extension_data: t.bytes }),
);

const bodyFields = {
  id: t.identifier,
  script: t.bytes,
  arguments: t.arrayOf(t.bytes),
  reference_block_id: t.identifier,
  gas_limit: t.decimal,
  payer: t.address,
  proposal_key: t.named(
    'ProposalKey',
    t.object({ address: t.address, key_index: t.decimal, sequence_number: t.decimal }),
  ),
  authorizers: t.arrayOf(t.address),
  payload_signatures: t.arrayOf(signatureSchema),
  envelope_signatures: t.arrayOf(signatureSchema),
};

/** Flow's REST form of a transaction, without links. */
export const transactionBodySchema = t.named('TransactionBody', t.object(bodyFields));
type RestTransactionBody = t.Described<typeof transactionBodySchema>;

export const transactionSchema = t.named(
  'Transaction',
  t.object({
    ...bodyFields,
    _expandable: t.object({
      result: t.note('Where an access node has the result. It is not indexed.', t.link),
    }),
    _links: t.selfLink,
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
    reference_block_id: paddedIdentifier(transaction.referenceBlockId),
    gas_limit: String(transaction.gasLimit),
    payer: toAddress(transaction.payer),
    proposal_key: {
      address: toAddress(proposalKey?.address ?? new Uint8Array()),
      key_index: String(proposalKey?.keyId ?? 0),
      sequence_number: String(proposalKey?.sequenceNumber ?? 0),
    },
    authorizers: transaction.authorizers.map(toAddress),
    payload_signatures: transaction.payloadSignatures.map(signature),
    envelope_signatures: transaction.envelopeSignatures.map(signature),
  };
}

export function restTransaction(id: Identifier, encoded: Uint8Array): t.Described<typeof transactionSchema> {
  // Not by spreading the body: V8 takes as long for that as for making it.
  return Object.assign(transactionBody(id, encoded), {
    _expandable: { result: `/v1/transaction_results/${id}` },
    _links: { _self: transactionLink(id) },
  });
}

export function transactionLink(id: Identifier): string {
  return `/v1/transactions/${id}`;
}

function signature(from: TransactionSignature): t.Described<typeof signatureSchema> {
  return {
    address: toAddress(from.address),
    key_index: String(from.keyId),
    signature: base64(from.signature),
    ...(from.extensionData.length > 0 ? { extension_data: base64(from.extensionData) } : {}),
  };
}
