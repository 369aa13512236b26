import { IDENTIFIER_BYTES, identifyTransactions } from '../../flow/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { BlockHasher, preimagesOf } from '../../proof/index.js';
import type { BlockPreimages } from '../../proof/index.js';
import type { StoredCollection } from '../../storage/index.js';
import { hex } from '../json/scalars.js';
import * as t from '../schema.js';
import { ApiError, invalidArgument } from '../view/ApiError.js';
import { IndexView } from '../view/IndexView.js';
import type { ReadableIndex } from '../view/IndexView.js';
import { parseHeight, parseId } from '../view/queryParameters.js';
import type { IndexedRange } from '../view/indexedRange.js';
import type { LookupKind } from './lookupDocument.js';
import { certifiedEnd, MAX_PROOF_HEADERS } from './certifiedEnd.js';

const VERSION = 1;

const ids = t.arrayOf(t.identifier);

/** docs/proofs.md describes it. It has no ids that follow from its other parts. */
export const proofSchema = t.named(
  'ProofDocument',
  t.object(
    {
      version: t.note(`The version of the format: ${VERSION}.`, t.count),
      headers: t.note(
        'RLP of consecutive headers, ascending, the first of the block itself. SHA3-256 of each is its block id, which the next one names as its parent.',
        t.arrayOf(t.hexDigits, MAX_PROOF_HEADERS),
      ),
      guarantees: t.note(
        'Of the block, in order: RLP of each, or where its id is that of its collection (flow-go before 0.43), the id.',
        t.arrayOf(t.hexDigits),
      ),
      otherRoots: t.note(
        'The Merkle roots of seals, receipts and results and, since flow-go 0.35, the id of the protocol state, one after the other.',
        t.hexDigits,
      ),
    },
    {
      collection: t.note('For a collection or transaction: the transaction ids of its collection.', ids),
      transaction: t.note('For a transaction: its id, one of those of the collection.', t.identifier),
      way: t.note(
        'Where it ends by a certificate: from the anchor, the first, to who signed it.',
        t.arrayOf(
          t.object({
            headers: t.arrayOf(t.hexDigits, MAX_PROOF_HEADERS),
            roots: t.hexDigits,
            protocolState: t.hexDigits,
            epochState: t.hexDigits,
            events: t.arrayOf(t.hexDigits),
          }),
        ),
      ),
    },
  ),
);
export type ProofDocument = t.Described<typeof proofSchema>;

/**
 * All that another program needs to prove a block (by id or height), a collection or a transaction (by id; at its lowest
 * place) from the id of the block at height `to`; where it is empty, from that of the anchor by a certificate, or if that
 * cannot be, from that of its own block. Expected errors: ApiError (400
 * malformed key or `to`, 404 not within `range`, 409 no proof is stored), StorageError.
 */
export async function proofDocument(
  reader: ReadableIndex,
  asked: { readonly kind: LookupKind; readonly key: string; readonly to: string },
  range: IndexedRange,
): Promise<ProofDocument> {
  const view = new IndexView(range, { reader });
  const { from, ...subject } = await subjectOf(view, asked);
  const to = asked.to === '' ? from : parseHeight(asked.to);
  if (to === undefined || to < from || to - from >= MAX_PROOF_HEADERS)
    throw invalidArgument(
      `to is a height from ${from}, that of the block, to ${from + MAX_PROOF_HEADERS - 1}: a proof has at most ${MAX_PROOF_HEADERS} headers`,
    );
  const chainId = reader.meta()?.chainId ?? '';
  const hasher = new BlockHasher();
  const read = async (height: number) => preimages((await view.block(height)).block, chainId, hasher);
  // The last one first: it is the one that may not be there.
  const last = await read(to);
  const first = to === from ? last : await read(from);
  const end = asked.to === '' ? await certifiedEnd(from, { hasher, reader, view }) : undefined;
  const headers = [first.header];
  for (let height = from + 1; height < to; height++) headers.push((await read(height)).header);
  if (to > from) headers.push(last.header);
  return {
    version: VERSION,
    ...subject,
    guarantees: first.guarantees.map(hex),
    otherRoots: hex(first.roots.subarray(IDENTIFIER_BYTES)),
    headers: (end?.headers ?? headers).map(hex),
    ...(end && { way: end.way }),
  };
}

/** The height of the block that the proof begins at, and what is proven in it. */
async function subjectOf(
  view: IndexView,
  { kind, key }: { readonly kind: LookupKind; readonly key: string },
): Promise<{ readonly from: number } & Pick<ProofDocument, 'collection' | 'transaction'>> {
  if (kind === 'block') return { from: (await view.blockNamed(key)).block.height };
  const id = parseId(key);
  if (kind === 'collection') return collectionProof(await view.collection(id));
  const { collectionId } = await view.transaction(id);
  return { ...collectionProof(await view.collection(collectionId)), transaction: id };
}

function collectionProof({ place, encoded }: StoredCollection) {
  return { from: place.height, collection: identifyTransactions(encoded).map(({ id }) => id) };
}

function preimages(
  { encoded, proof, height }: FinalizedBlock,
  chainId: string,
  hasher: BlockHasher,
): BlockPreimages {
  if (proof !== undefined) return preimagesOf(encoded, proof, chainId, hasher);
  throw new ApiError(409, 'unproven', `block ${height} was taken on the word of the nodes: it has no proof`);
}
