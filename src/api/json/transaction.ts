import { decodeTransaction } from '../../flow/index.js';
import type { Identifier, TransactionSignature } from '../../flow/index.js';
import { addressHex, base64, identifierHex } from './scalars.js';

/** Flow's REST form of a transaction: numbers are strings, bytes are base64, addresses are 16 hex digits. */
export interface RestTransactionBody {
  readonly id: string;
  readonly script: string;
  readonly arguments: readonly string[];
  readonly reference_block_id: string;
  readonly gas_limit: string;
  readonly payer: string;
  readonly proposal_key: RestProposalKey;
  readonly authorizers: readonly string[];
  readonly payload_signatures: readonly RestSignature[];
  readonly envelope_signatures: readonly RestSignature[];
}

export interface RestProposalKey {
  readonly address: string;
  readonly key_index: string;
  readonly sequence_number: string;
}

export interface RestSignature {
  readonly address: string;
  readonly key_index: string;
  readonly signature: string;
  /** Only where the signature has any. */
  readonly extension_data?: string;
}

/** As routes return it. Only access nodes keep the result: it is linked, never expanded. */
export interface RestTransaction extends RestTransactionBody {
  readonly _expandable: { readonly result: string };
  readonly _links: { readonly _self: string };
}

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

export function restTransaction(id: Identifier, encoded: Uint8Array): RestTransaction {
  return {
    ...transactionBody(id, encoded),
    _expandable: { result: `/v1/transaction_results/${id}` },
    _links: { _self: transactionLink(id) },
  };
}

export function transactionLink(id: Identifier): string {
  return `/v1/transactions/${id}`;
}

function signature(from: TransactionSignature): RestSignature {
  return {
    address: addressHex(from.address),
    key_index: String(from.keyId),
    signature: base64(from.signature),
    ...(from.extensionData.length > 0 ? { extension_data: base64(from.extensionData) } : {}),
  };
}
