import { decodeBlock } from '../../flow/index.js';
import type { Block, CollectionGuarantee } from '../../flow/index.js';
import { base64, hex, identifierHex, rfc3339, utf8 } from './scalars.js';

export interface RestBlockHeader {
  readonly id: string;
  readonly parent_id: string;
  readonly height: string;
  readonly timestamp: string;
  readonly parent_voter_signature: string;
}

export interface RestCollectionGuarantee {
  readonly collection_id: string;
  readonly signer_indices: string;
  readonly signature: string;
  readonly reference_block_id: string;
  readonly cluster_chain_id: string;
}

export interface RestBlockPayload {
  readonly collection_guarantees: readonly RestCollectionGuarantee[];
  /** Always empty: the index keeps no seals. */
  readonly block_seals: readonly never[];
}

/** Flow's REST form of a block. Routes answer with arrays of it. */
export interface RestBlock {
  readonly header: RestBlockHeader;
  readonly payload?: RestBlockPayload;
  /** `execution_result` is omitted, as Flow does for a block whose result it does not have. */
  readonly _expandable: { readonly payload?: string };
  readonly _links: { readonly _self: string };
  /** Every indexed block is final. */
  readonly block_status: 'BLOCK_FINALIZED' | 'BLOCK_SEALED';
}

/** A block without links, payload included. */
export interface BlockBody {
  readonly header: RestBlockHeader;
  readonly payload: RestBlockPayload;
}

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

export function blockBody(encoded: Uint8Array): BlockBody {
  const block = decodeBlock(encoded);
  return { header: header(block), payload: payload(block) };
}

function header(block: Block): RestBlockHeader {
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

function guarantee(from: CollectionGuarantee): RestCollectionGuarantee {
  return {
    collection_id: from.collectionId,
    signer_indices: hex(from.signerIndices),
    signature: base64(from.signature),
    reference_block_id: identifierHex(from.referenceBlockId),
    cluster_chain_id: utf8(from.clusterChainId),
  };
}
