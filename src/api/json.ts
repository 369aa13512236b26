import { NO_TIME, asBuffer, decodeBlock, decodeTransaction, identifyTransactions } from '../flow/index.js';
import { paddedIdentifier, toAddress, type Block, type CollectionGuarantee } from '../flow/index.js';
import type { IdentifiedTransaction, Identifier, Timestamp, TransactionSignature } from '../flow/index.js';
import type { WholeBlock } from '../storage/index.js';
import * as T from './Schema.js';

export function hex(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('hex');
}

export function base64(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('base64');
}

function utf8(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('utf8');
}

/**
 * RFC 3339 in UTC, without trailing zeros of the fraction. The wire codec
 * accepts only the years 1 to 9999, which are those that this form can express.
 */
export function rfc3339(timestamp: Timestamp = NO_TIME): string {
  const { seconds, nanos } = timestamp;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length);
  const fraction = String(nanos).padStart(9, '0').replace(/0+$/, '');
  return fraction === '' ? `${whole}Z` : `${whole}.${fraction}Z`;
}

const signatureSchema = T.object(
  { address: T.address, key_index: T.decimal, signature: T.bytes },
  { extension_data: T.bytes },
).named('Signature');

const bodyFields = {
  id: T.identifier,
  script: T.bytes,
  arguments: T.arrayOf(T.bytes),
  reference_block_id: T.identifier,
  gas_limit: T.decimal,
  payer: T.address,
  proposal_key: T.object({ address: T.address, key_index: T.decimal, sequence_number: T.decimal }).named(
    'ProposalKey',
  ),
  authorizers: T.arrayOf(T.address),
  payload_signatures: T.arrayOf(signatureSchema),
  envelope_signatures: T.arrayOf(signatureSchema),
};

/** Flow's REST form of a transaction, without links. */
export const transactionBodySchema = T.object(bodyFields).named('TransactionBody');

export const transactionSchema = T.object({
  ...bodyFields,
  _expandable: T.object({ result: T.link.note('Where an access node has the result. It is not indexed.') }),
  _links: T.selfLink,
}).named('Transaction');

/** A stored transaction. Its id is taken as given, not recomputed. */
export function transactionBody({
  id,
  encoded,
}: IdentifiedTransaction): T.Described<typeof transactionBodySchema> {
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

export function restTransaction(stored: IdentifiedTransaction): T.Described<typeof transactionSchema> {
  // Not spread: V8 takes as long to spread the body as to make it.
  return Object.assign(transactionBody(stored), {
    _expandable: { result: `/v1/transaction_results/${stored.id}` },
    _links: { _self: transactionLink(stored) },
  });
}

function transactionLink({ id }: Pick<IdentifiedTransaction, 'id'>): string {
  return `/v1/transactions/${id}`;
}

function signature(from: TransactionSignature): T.Described<typeof signatureSchema> {
  return {
    address: toAddress(from.address),
    key_index: String(from.keyId),
    signature: base64(from.signature),
    ...(from.extensionData.length > 0 ? { extension_data: base64(from.extensionData) } : {}),
  };
}

const linkedFields = {
  id: T.identifier,
  _expandable: T.object({}, { transactions: T.arrayOf(T.link) }),
  _links: T.selfLink,
};
const expandedFields = { transactions: T.arrayOf(transactionSchema).note('With expand=transactions.') };

export const collectionSchema = T.object(linkedFields, expandedFields).named('Collection');

/** Flow's REST interface has no such response. */
export const blockCollectionsSchema = T.object({
  block_id: T.identifier,
  height: T.decimal,
  collections: T.arrayOf(
    T.object({ ...linkedFields, transaction_ids: T.arrayOf(T.identifier) }, expandedFields).named(
      'BlockCollection',
    ),
  ).note('In the order of the guarantees.'),
  _links: T.selfLink,
}).named('BlockCollections');

/** A collection with the bodies of its transactions and without links. */
export const collectionBodySchema = T.object({
  id: T.identifier,
  transactions: T.arrayOf(transactionBodySchema),
});

/** `isExpanded`: its transactions are included instead of linked. */
export function restCollection(
  id: Identifier,
  transactions: readonly IdentifiedTransaction[],
  isExpanded: boolean,
): T.Described<typeof collectionSchema> {
  const _links = { _self: `/v1/collections/${id}` };
  return isExpanded
    ? { id, transactions: transactions.map(restTransaction), _expandable: {}, _links }
    : { id, _expandable: { transactions: transactions.map(transactionLink) }, _links };
}

export function restBlockCollections(
  { block: { id, height, collectionIds }, bodies }: WholeBlock,
  isExpanded: boolean,
): T.Described<typeof blockCollectionsSchema> {
  return {
    block_id: id,
    height: String(height),
    collections: collectionIds.map((collectionId, index) => {
      const transactions = identifyTransactions(bodies[index] ?? new Uint8Array());
      const transactionIds = transactions.map((one) => one.id);
      return { ...restCollection(collectionId, transactions, isExpanded), transaction_ids: transactionIds };
    }),
    _links: { _self: `/v1/blocks/${id}/collections` },
  };
}

/** `encoded` is the stored form: the transactions one after another, as in a `GetFullCollectionByID` response. */
export function collectionBody(
  id: Identifier,
  encoded: Uint8Array,
): T.Described<typeof collectionBodySchema> {
  return { id, transactions: identifyTransactions(encoded).map(transactionBody) };
}

const headerSchema = T.object({
  id: T.identifier,
  parent_id: T.identifier,
  height: T.decimal,
  timestamp: T.time,
  parent_voter_signature: T.bytes,
}).named('BlockHeader');

const guaranteeSchema = T.object({
  collection_id: T.identifier,
  signer_indices: T.hexDigits,
  signature: T.bytes,
  reference_block_id: T.identifier,
  cluster_chain_id: T.text,
}).named('CollectionGuarantee');

export const payloadSchema = T.object({
  collection_guarantees: T.arrayOf(guaranteeSchema),
  block_seals: T.arrayOf<never>(new T.Schema({ type: 'object' }), 0).note(
    'Always empty: seals are not indexed.',
  ),
}).named('BlockPayload');

/** A block without links, payload included. */
export const blockBodyFields = { header: headerSchema, payload: payloadSchema };

export const blockSchema = T.object(
  {
    header: headerSchema,
    // As in Flow for a block whose result is missing, without `execution_result`.
    _expandable: T.object({}, { payload: T.link }),
    _links: T.selfLink,
    block_status: T.words('BLOCK_FINALIZED', 'BLOCK_SEALED'),
  },
  {
    payload: payloadSchema.note('With expand=payload.'),
    proven: T.flag.note(
      'Proven final, by certificates of the consensus nodes. An addition to what nodes answer.',
    ),
  },
).named('Block');

/** `encoded` is the stored block record. `isExpanded`: its payload is included instead of linked. */
export function restBlock(
  encoded: Uint8Array,
  { isExpanded, isProven, isSealed }: Readonly<Record<'isExpanded' | 'isProven' | 'isSealed', boolean>>,
): T.Described<typeof blockSchema> {
  const block = decodeBlock(encoded);
  const self = `/v1/blocks/${block.id}`;
  return {
    header: header(block),
    ...(isExpanded ? { payload: payload(block) } : {}),
    _expandable: isExpanded ? {} : { payload: `${self}/payload` },
    _links: { _self: self },
    block_status: isSealed ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED',
    proven: isProven,
  };
}

export function blockBody(encoded: Uint8Array) {
  const block = decodeBlock(encoded);
  return { header: header(block), payload: payload(block) };
}

function header(block: Block): T.Described<typeof headerSchema> {
  return {
    id: block.id,
    parent_id: block.parentId,
    height: String(block.height),
    timestamp: rfc3339(block.timestamp),
    parent_voter_signature: base64(block.signatures[0] ?? new Uint8Array()),
  };
}

function payload(block: Block): T.Described<typeof payloadSchema> {
  return { collection_guarantees: block.guarantees.map(guarantee), block_seals: [] };
}

function guarantee(from: CollectionGuarantee): T.Described<typeof guaranteeSchema> {
  return {
    collection_id: from.collectionId,
    signer_indices: hex(from.signerIndices),
    signature: base64(from.signature),
    reference_block_id: paddedIdentifier(from.referenceBlockId),
    cluster_chain_id: utf8(from.clusterChainId),
  };
}
