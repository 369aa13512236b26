import { decodeBlock } from '../../flow/index.js';
import type { Block, CollectionGuarantee } from '../../flow/index.js';
import {
  arrayOf,
  bytes,
  decimal,
  hexDigits,
  identifier,
  link,
  named,
  note,
  object,
  selfLink,
  text,
  time,
  words,
} from '../schema.js';
import type { Described } from '../schema.js';
import { base64, hex, identifierHex, rfc3339, utf8 } from './scalars.js';

const headerSchema = named(
  'BlockHeader',
  object({
    id: identifier,
    parent_id: identifier,
    height: decimal,
    timestamp: time,
    parent_voter_signature: bytes,
  }),
);

const guaranteeSchema = named(
  'CollectionGuarantee',
  object({
    collection_id: identifier,
    signer_indices: hexDigits,
    signature: bytes,
    reference_block_id: identifier,
    cluster_chain_id: text,
  }),
);

export const payloadSchema = named(
  'BlockPayload',
  object({
    collection_guarantees: arrayOf(guaranteeSchema),
    block_seals: note('Always empty: seals are not indexed.', arrayOf<never>({ type: 'object' }, 0)),
  }),
);

/** A block without links, payload included. */
export const blockBodyFields = { header: headerSchema, payload: payloadSchema };

export const blockSchema = named(
  'Block',
  object(
    {
      header: headerSchema,
      // As in Flow for a block whose result is missing, without `execution_result`.
      _expandable: object({}, { payload: link }),
      _links: selfLink,
      block_status: words('BLOCK_FINALIZED', 'BLOCK_SEALED'),
    },
    { payload: note('With expand=payload.', payloadSchema) },
  ),
);
type RestBlock = Described<typeof blockSchema>;
type RestBlockPayload = Described<typeof payloadSchema>;

/** `encoded` is the stored block record; the status follows from the sealed head (`undefined` while unknown). */
export function restBlock(
  encoded: Uint8Array,
  sealedHeight: number | undefined,
  expand: { readonly payload: boolean },
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
  };
}

export function restBlockPayload(encoded: Uint8Array): RestBlockPayload {
  return payload(decodeBlock(encoded));
}

export function blockBody(encoded: Uint8Array) {
  const block = decodeBlock(encoded);
  return { header: header(block), payload: payload(block) };
}

function header(block: Block): Described<typeof headerSchema> {
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

function guarantee(from: CollectionGuarantee): Described<typeof guaranteeSchema> {
  return {
    collection_id: from.collectionId,
    signer_indices: hex(from.signerIndices),
    signature: base64(from.signature),
    reference_block_id: identifierHex(from.referenceBlockId),
    cluster_chain_id: utf8(from.clusterChainId),
  };
}
