import { IDENTIFIER_BYTES, toIdentifier } from '../../flow/index.js';
import { committeesIn, preimagesOf, readHeader, readParts } from '../../proof/index.js';
import type { BlockHasher, StoredHeader } from '../../proof/index.js';
import type { CommitteeEvidence } from '../../storage/index.js';
import { hex } from '../json/scalars.js';
import type { IndexView, ReadableIndex } from '../view/IndexView.js';
import { rangeWith } from '../view/indexedRange.js';

/** Of a document; docs/proofs.md. */
export const MAX_PROOF_HEADERS = 1_000;
const MAX_STEPS = 104;
const ROOTS_BYTES = 5 * IDENTIFIER_BYTES;

interface Link {
  readonly stored: StoredHeader;
  readonly header: Buffer;
  readonly roots: Buffer;
}

/** Headers whose last three prove the first final, once who signs in the view is known. */
interface FinalChain {
  readonly links: readonly Link[];
  readonly view: number;
}

/**
 * How a document for the block at `from` ends by a certificate: its headers, and the way from the anchor to who signed it.
 * `undefined` where the anchor is not below the block, or the store does not hold what shows the block final. Expected
 * errors: ApiError, StorageError, WireError.
 */
export async function certifiedEnd(
  from: number,
  {
    hasher,
    reader,
    view,
  }: { readonly hasher: BlockHasher; readonly reader: ReadableIndex; readonly view: IndexView },
) {
  const covered = rangeWith(from, view.range);
  const { chainId, sporks = [] } = reader.meta() ?? {};
  if (covered === undefined || chainId === undefined) return undefined;
  // Nothing is signed across sporks.
  const roots = sporks.map(({ rootHeight }) => rootHeight);
  const lowest = Math.max(covered.from, ...roots.filter((root) => root <= from));
  const proven = view.range.proven;
  const highest = Math.min(
    ...[covered.to, ...roots.filter((root) => root > from).map((root) => root - 1)],
    // The two above the newest block that is proven are part of its proof.
    proven === undefined ? covered.to : proven.to + 2,
  );

  const read = async (height: number): Promise<Link | undefined> => {
    const { encoded, proof } = (await view.block(height)).block;
    if (proof === undefined) return undefined;
    const stored = readHeader(encoded, proof, chainId, hasher);
    return { stored, ...preimagesOf(encoded, proof, chainId, hasher) };
  };
  const finalFrom = async (height: number): Promise<FinalChain | undefined> => {
    const links: Link[] = [];
    for (let next = height; next <= Math.min(highest, height + MAX_PROOF_HEADERS - 1); next++) {
      const link = await read(next);
      if (link === undefined) return undefined;
      links.push(link);
      const [block, child] = links.slice(-3).map(({ stored }) => stored.view);
      if (links.length < 3 || block === undefined || child !== block + 1) continue;
      if (link.stored.parentView === child) return { links, view: child };
    }
    return undefined;
  };
  const stepAt = (evidence: CommitteeEvidence, links: readonly Link[]) => {
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
  const first = anchor && (await read(anchor.height));
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
