import { MAX_ITEMS } from '../view/queryParameters.js';
import type { RestBlock, RestBlockHeader, RestBlockPayload, RestCollectionGuarantee } from '../json/block.js';
import type { RestBlockCollection, RestBlockCollections, RestCollection } from '../json/collection.js';
import type { RestNetworkParameters, RestNodeVersionInfo } from '../json/nodeVersionInfo.js';
import type {
  RestProposalKey,
  RestSignature,
  RestTransaction,
  RestTransactionBody,
} from '../json/transaction.js';
import {
  address,
  arrayOf,
  base64,
  decimal,
  described,
  hexDigits,
  identifier,
  link,
  object,
  oneOfWords,
  ref,
  text,
  time,
} from './schema.js';
import type { Schema } from './schema.js';

const links = object<RestBlock['_links']>({ _self: link });

export const transactionBodyFields: Readonly<Record<keyof RestTransactionBody, Schema>> = {
  id: identifier,
  script: base64,
  arguments: arrayOf(base64),
  reference_block_id: identifier,
  gas_limit: decimal,
  payer: address,
  proposal_key: ref('ProposalKey'),
  authorizers: arrayOf(address),
  payload_signatures: arrayOf(ref('Signature')),
  envelope_signatures: arrayOf(ref('Signature')),
};

const collectionFields: Readonly<Record<keyof RestCollection, Schema>> = {
  id: identifier,
  transactions: described('With expand=transactions.', arrayOf(ref('Transaction'))),
  _expandable: object<RestCollection['_expandable']>({ transactions: arrayOf(link) }, ['transactions']),
  _links: links,
};

/** The responses of Flow's REST routes, and of our additions to them. */
export const flowShapes = {
  Blocks: arrayOf(ref('Block'), MAX_ITEMS),
  Block: object<RestBlock>(
    {
      header: ref('BlockHeader'),
      payload: described('With expand=payload.', ref('BlockPayload')),
      _expandable: object<RestBlock['_expandable']>({ payload: link }, ['payload']),
      _links: links,
      block_status: oneOfWords('BLOCK_FINALIZED', 'BLOCK_SEALED'),
    },
    ['payload'],
  ),
  BlockHeader: object<RestBlockHeader>({
    id: identifier,
    parent_id: identifier,
    height: decimal,
    timestamp: time,
    parent_voter_signature: base64,
  }),
  BlockPayload: object<RestBlockPayload>({
    collection_guarantees: arrayOf(ref('CollectionGuarantee')),
    block_seals: described('Always empty: seals are not indexed.', arrayOf({ type: 'object' }, 0)),
  }),
  CollectionGuarantee: object<RestCollectionGuarantee>({
    collection_id: identifier,
    signer_indices: hexDigits,
    signature: base64,
    reference_block_id: identifier,
    cluster_chain_id: text,
  }),
  BlockCollections: object<RestBlockCollections>({
    block_id: identifier,
    height: decimal,
    collections: described('In the order of the guarantees.', arrayOf(ref('BlockCollection'))),
    _links: links,
  }),
  BlockCollection: object<RestBlockCollection>(
    { ...collectionFields, transaction_ids: arrayOf(identifier) },
    ['transactions'],
  ),
  Collection: object<RestCollection>(collectionFields, ['transactions']),
  Transactions: arrayOf(ref('Transaction')),
  Transaction: object<RestTransaction>({
    ...transactionBodyFields,
    _expandable: object<RestTransaction['_expandable']>({
      result: described('Where an access node has the result. It is not indexed.', link),
    }),
    _links: links,
  }),
  ProposalKey: object<RestProposalKey>({ address, key_index: decimal, sequence_number: decimal }),
  Signature: object<RestSignature>(
    { address, key_index: decimal, signature: base64, extension_data: base64 },
    ['extension_data'],
  ),
  NetworkParameters: object<RestNetworkParameters>({ chain_id: text }),
  NodeVersionInfo: object<RestNodeVersionInfo>(
    {
      semver: described('The version of the indexer, behind a v.', text),
      commit: described('Always empty.', text),
      spork_id: described(
        'Of the newest spork that can be read; empty when no node reported one.',
        hexDigits,
      ),
      protocol_version: described('Always 0: the indexer takes no part in the protocol.', decimal),
      protocol_state_version: described('Always 0.', decimal),
      spork_root_block_height: decimal,
      node_root_block_height: described('The first indexed height.', decimal),
      compatible_range: described(
        'The heights that can be read.',
        object<NonNullable<RestNodeVersionInfo['compatible_range']>>({
          start_height: decimal,
          end_height: decimal,
        }),
      ),
    },
    ['compatible_range'],
  ),
} as const;
