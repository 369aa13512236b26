import {
  NO_TIME,
  asBuffer,
  decodeBlock,
  decodeTransaction,
  identifyTransactions,
  paddedIdentifier,
  toAddress,
} from '../flow/index.js';
import type {
  Block,
  CollectionGuarantee,
  IdentifiedTransaction,
  Identifier,
  Timestamp,
  TransactionSignature,
} from '../flow/index.js';
import * as t from './schema.js';

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

function transactionLink(id: Identifier): string {
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

const linkedFields = {
  id: t.identifier,
  _expandable: t.object({}, { transactions: t.arrayOf(t.link) }),
  _links: t.selfLink,
};
const expandedFields = { transactions: t.note('With expand=transactions.', t.arrayOf(transactionSchema)) };

export const collectionSchema = t.named('Collection', t.object(linkedFields, expandedFields));
type RestCollection = t.Described<typeof collectionSchema>;

/** Flow's REST interface has no such response. */
export const blockCollectionsSchema = t.named(
  'BlockCollections',
  t.object({
    block_id: t.identifier,
    height: t.decimal,
    collections: t.note(
      'In the order of the guarantees.',
      t.arrayOf(
        t.named(
          'BlockCollection',
          t.object({ ...linkedFields, transaction_ids: t.arrayOf(t.identifier) }, expandedFields),
        ),
      ),
    ),
    _links: t.selfLink,
  }),
);
type RestBlockCollections = t.Described<typeof blockCollectionsSchema>;

/** A collection with the bodies of its transactions and without links. */
export const collectionBodySchema = t.object({
  id: t.identifier,
  transactions: t.arrayOf(transactionBodySchema),
});

/** What is included in the response instead of linked. */
interface CollectionExpansion {
  readonly transactions: boolean;
}

/** `encoded` is the stored form: the transactions one after another, as in a `GetFullCollectionByID` response. */
export function restCollection(
  id: Identifier,
  encoded: Uint8Array,
  expand: CollectionExpansion,
): RestCollection {
  return collectionOf(id, identifyTransactions(encoded), expand);
}

export function restBlockCollections(
  blockId: Identifier,
  height: number,
  collections: readonly { readonly id: Identifier; readonly encoded: Uint8Array }[],
  expand: CollectionExpansion,
): RestBlockCollections {
  return {
    block_id: blockId,
    height: String(height),
    collections: collections.map(({ id, encoded }) => {
      const transactions = identifyTransactions(encoded);
      return {
        ...collectionOf(id, transactions, expand),
        transaction_ids: transactions.map((one) => one.id),
      };
    }),
    _links: { _self: `/v1/blocks/${blockId}/collections` },
  };
}

/** The transactions of these collections, in order. */
export function restTransactions(collections: readonly { readonly encoded: Uint8Array }[]) {
  return collections
    .flatMap(({ encoded }) => identifyTransactions(encoded))
    .map((one) => restTransaction(one.id, one.encoded));
}

export function collectionBody(
  id: Identifier,
  encoded: Uint8Array,
): t.Described<typeof collectionBodySchema> {
  return {
    id,
    transactions: identifyTransactions(encoded).map((one) => transactionBody(one.id, one.encoded)),
  };
}

function collectionOf(
  id: Identifier,
  transactions: readonly IdentifiedTransaction[],
  expand: CollectionExpansion,
): RestCollection {
  const _links = { _self: `/v1/collections/${id}` };
  if (!expand.transactions) {
    return { id, _expandable: { transactions: transactions.map((one) => transactionLink(one.id)) }, _links };
  }
  return {
    id,
    transactions: transactions.map((one) => restTransaction(one.id, one.encoded)),
    _expandable: {},
    _links,
  };
}

const headerSchema = t.named(
  'BlockHeader',
  t.object({
    id: t.identifier,
    parent_id: t.identifier,
    height: t.decimal,
    timestamp: t.time,
    parent_voter_signature: t.bytes,
  }),
);

const guaranteeSchema = t.named(
  'CollectionGuarantee',
  t.object({
    collection_id: t.identifier,
    signer_indices: t.hexDigits,
    signature: t.bytes,
    reference_block_id: t.identifier,
    cluster_chain_id: t.text,
  }),
);

export const payloadSchema = t.named(
  'BlockPayload',
  t.object({
    collection_guarantees: t.arrayOf(guaranteeSchema),
    block_seals: t.note('Always empty: seals are not indexed.', t.arrayOf<never>({ type: 'object' }, 0)),
  }),
);

/** A block without links, payload included. */
export const blockBodyFields = { header: headerSchema, payload: payloadSchema };

export const blockSchema = t.named(
  'Block',
  t.object(
    {
      header: headerSchema,
      // As in Flow for a block whose result is missing, without `execution_result`.
      _expandable: t.object({}, { payload: t.link }),
      _links: t.selfLink,
      block_status: t.words('BLOCK_FINALIZED', 'BLOCK_SEALED'),
    },
    {
      payload: t.note('With expand=payload.', payloadSchema),
      proven: t.note(
        'Proven final, by certificates of the consensus nodes. An addition to what nodes answer.',
        t.flag,
      ),
    },
  ),
);
type RestBlock = t.Described<typeof blockSchema>;
type RestBlockPayload = t.Described<typeof payloadSchema>;

/** `encoded` is the stored block record; the status follows from the sealed head (`undefined` while unknown). */
export function restBlock(
  encoded: Uint8Array,
  sealedHeight: number | undefined,
  expand: { readonly payload: boolean; readonly proven?: boolean },
): RestBlock {
  const block = decodeBlock(encoded);
  const self = `/v1/blocks/${block.id}`;
  return {
    header: header(block),
    ...(expand.payload ? { payload: payload(block) } : {}),
    _expandable: expand.payload ? {} : { payload: `${self}/payload` },
    _links: { _self: self },
    block_status:
      sealedHeight !== undefined && block.height <= sealedHeight ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED',
    ...(expand.proven === undefined ? {} : { proven: expand.proven }),
  };
}

export function restBlockPayload(encoded: Uint8Array): RestBlockPayload {
  return payload(decodeBlock(encoded));
}

export function blockBody(encoded: Uint8Array) {
  const block = decodeBlock(encoded);
  return { header: header(block), payload: payload(block) };
}

function header(block: Block): t.Described<typeof headerSchema> {
  return {
    id: block.id,
    parent_id: block.parentId,
    height: String(block.height),
    timestamp: rfc3339(block.timestamp),
    parent_voter_signature: base64(block.signatures[0] ?? new Uint8Array()),
  };
}

function payload(block: Block): RestBlockPayload {
  return { collection_guarantees: block.guarantees.map(guarantee), block_seals: [] };
}

function guarantee(from: CollectionGuarantee): t.Described<typeof guaranteeSchema> {
  return {
    collection_id: from.collectionId,
    signer_indices: hex(from.signerIndices),
    signature: base64(from.signature),
    reference_block_id: paddedIdentifier(from.referenceBlockId),
    cluster_chain_id: utf8(from.clusterChainId),
  };
}
