import { IDENTIFIER_BYTES, identifyTransactions, toIdentifier } from '../../flow/index.js';
import { BlockHasher, committeesIn, preimagesOf, readParts, type BlockPreimages } from '../../proof/index.js';
import type { CommitteeEvidence, IndexReader, StoredItem } from '../../storage/index.js';
import { hex } from '../json.js';
import * as T from '../Schema.js';
import { ApiError, invalidArgument } from '../view/ApiError.js';
import { IndexView } from '../view/IndexView.js';
import { parseHeight, parseId } from '../view/queryParameters.js';
import type { LookupKind } from './lookupDocument.js';
import { rangeWith, type IndexedRange } from '../view/indexedRange.js';

const VERSION = 1;
/** Per document (docs/proofs.md). */
const MAX_PROOF_HEADERS = 1_000;
const MAX_STEPS = 104;
const ROOTS_BYTES = 5 * IDENTIFIER_BYTES;

const ids = T.arrayOf(T.identifier);

/** docs/proofs.md describes it. It has no ids that follow from its other parts. */
export const proofSchema = T.object(
  {
    version: T.count.note(`The version of the format: ${VERSION}.`),
    headers: T.arrayOf(T.hexDigits, MAX_PROOF_HEADERS).note(
      'RLP of consecutive headers, ascending, the first of the block itself. SHA3-256 of each is its block id, which the next one names as its parent.',
    ),
    guarantees: T.arrayOf(T.hexDigits).note(
      'Of the block, in order: RLP of each, or where its id is that of its collection (flow-go before 0.43), the id.',
    ),
    otherRoots: T.hexDigits.note(
      'The Merkle roots of seals, receipts and results and, since flow-go 0.35, the id of the protocol state, one after the other.',
    ),
  },
  {
    collection: ids.note('For a collection or transaction: the transaction ids of its collection.'),
    transaction: T.identifier.note('For a transaction: its id, one of those of the collection.'),
    way: T.arrayOf(
      T.object({
        headers: T.arrayOf(T.hexDigits, MAX_PROOF_HEADERS),
        roots: T.hexDigits,
        protocolState: T.hexDigits,
        epochState: T.hexDigits,
        events: T.arrayOf(T.hexDigits),
      }),
    ).note('Where it ends by a certificate: from the anchor, the first, to its signers.'),
  },
).named('ProofDocument');
export type ProofDocument = T.Described<typeof proofSchema>;

/**
 * All that another program needs to prove a block (by id or height), a collection or a transaction (by id; at its lowest place)
 * from the id of the block at height `to`; if `to` is empty, from that of the anchor by a certificate, or without one, from that
 * of its own block. `now`: as for `IndexView`. Expected errors: ApiError (400 malformed key or `to`, 404 not indexed, 409 no
 * proof is stored), StorageError.
 */
export async function proofDocument(
  reader: IndexReader,
  asked: { readonly kind: LookupKind; readonly key: string; readonly to: string },
  now: () => IndexedRange,
): Promise<ProofDocument> {
  const view = new IndexView(reader, now);
  const { from, ...subject } = await subjectOf(view, asked);
  const to = asked.to === '' ? from : parseHeight(asked.to);
  if (to === undefined || to < from || to - from >= MAX_PROOF_HEADERS)
    throw invalidArgument(
      `to is a height from ${from}, that of the block, to ${from + MAX_PROOF_HEADERS - 1}: a proof has at most ${MAX_PROOF_HEADERS} headers`,
    );
  const chainId = reader.meta()?.chainId ?? '';
  const hasher = new BlockHasher();
  const linkAt: LinkAt = async (height) => {
    const { encoded, proof } = (await view.block(height)).block;
    return proof && preimagesOf(encoded, proof, chainId, hasher);
  };
  const needed = async (height: number): Promise<BlockPreimages> => {
    const link = await linkAt(height);
    if (link !== undefined) return link;
    const message = `block ${height} was taken on the word of the nodes: it has no proof`;
    throw new ApiError(409, 'unproven', message);
  };
  // The last block first: it may not be indexed yet.
  const last = await needed(to);
  const first = to === from ? last : await needed(from);
  const end = asked.to === '' ? await certifiedEnd(from, reader, view, linkAt) : undefined;
  const headers = [first.header];
  for (let height = from + 1; height < to; height++) headers.push((await needed(height)).header);
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
  if (kind === 'collection') return collectionProof(await view.item('collection', id));
  const { collectionId } = await view.item('transaction', id);
  return { ...collectionProof(await view.item('collection', collectionId)), transaction: id };
}

function collectionProof({ place, encoded }: StoredItem) {
  return { from: place.height, collection: identifyTransactions(encoded).map(({ id }) => id) };
}

/** A block and what its id is made of; `undefined` where no proof is stored. */
type LinkAt = (height: number) => Promise<BlockPreimages | undefined>;

/**
 * How a document for the block at `from` ends by a certificate: its headers, and the way from the anchor to its signers.
 * `undefined` where the anchor is not below the block, or the store does not hold what shows the block final. Expected errors:
 * ApiError, StorageError, WireError.
 */
async function certifiedEnd(from: number, reader: IndexReader, view: IndexView, linkAt: LinkAt) {
  const covered = rangeWith(from, view.range);
  if (covered === undefined) return undefined;
  // No certificate spans two sporks.
  const roots = (reader.meta()?.sporks ?? []).map(({ rootHeight }) => rootHeight);
  const lowest = Math.max(covered.from, ...roots.filter((root) => root <= from));
  const proven = view.range.proven;
  const highest = Math.min(
    ...[covered.to, ...roots.filter((root) => root > from).map((root) => root - 1)],
    // The two above the newest block that is proven are part of its proof.
    proven === undefined ? covered.to : proven.to + 2,
  );

  /** Blocks of which the last three prove the first final, once the signers of the view are known. */
  const finalFrom = async (height: number) => {
    const links: BlockPreimages[] = [];
    for (let next = height; next <= Math.min(highest, height + MAX_PROOF_HEADERS - 1); next++) {
      const link = await linkAt(next);
      if (link === undefined) return undefined;
      links.push(link);
      const [block, child] = links.slice(-3).map(({ stored }) => stored.view);
      if (links.length < 3 || block === undefined || child !== block + 1) continue;
      if (link.stored.parentView === child) return { links, view: child };
    }
    return undefined;
  };
  const stepAt = (evidence: CommitteeEvidence, links: readonly BlockPreimages[]) => {
    const [block] = links;
    if (block?.stored.id !== evidence.id || block.roots.length !== ROOTS_BYTES) return undefined;
    const state = readParts(evidence, toIdentifier(block.stored.protocolStateId));
    const step = {
      headers: links.map(({ header }) => hex(header)),
      roots: hex(block.roots),
      protocolState: hex(evidence.protocolState),
      epochState: hex(evidence.epochState),
      events: evidence.events.map(hex),
    };
    return state && { step, committeeAt: committeesIn(state) };
  };

  const evidence = (await reader.evidence()).filter(({ height }) => height >= lowest && height <= highest);
  const anchor = evidence.findLast(({ height, isAnchor }) => isAnchor && height < from);
  const first = anchor && (await linkAt(anchor.height));
  let last = first && stepAt(anchor, [first]);
  const end = last && (await finalFrom(from));
  if (anchor === undefined || last === undefined || end === undefined) return undefined;
  const way = [last.step];
  for (const later of evidence.filter(({ height }) => height > anchor.height)) {
    if (last.committeeAt(end.view) !== undefined) break;
    const chain = await finalFrom(later.height);
    if (chain === undefined || last.committeeAt(chain.view) === undefined) continue;
    const next = stepAt(later, chain.links);
    if (next === undefined) continue;
    last = next;
    way.push(last.step);
  }
  if (last.committeeAt(end.view) === undefined || way.length > MAX_STEPS) return undefined;
  return { headers: end.links.map(({ header }) => header), way };
}
