import { decodeBlock, paddedIdentifier } from '../../flow/index.js';
import type { Block, CollectionGuarantee } from '../../flow/index.js';
import * as t from '../schema.js';
import { base64, hex, rfc3339, utf8 } from './scalars.js';

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
