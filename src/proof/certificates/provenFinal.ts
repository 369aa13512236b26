import type { Identifier } from '../../flow/index.js';
import type { StoredHeader } from '../blocks/storedProof.js';

/** What the members of a committee vote for. */
export interface Vote {
  readonly view: number;
  readonly blockId: Identifier;
}

/** A quorum certificate: more than two thirds of a committee voted for a block. */
export interface Certificate extends Vote {
  readonly voterIndices: Uint8Array;
  readonly voterSigData: Uint8Array;
}

export type CertificateVerdict =
  | { readonly valid: true; readonly signers: number; readonly weight: number; readonly threshold: number }
  | { readonly valid: false; readonly reason: string };

/** The fields that the rule reads from a header whose id is proven. */
export type FinalityHeader = Pick<
  StoredHeader,
  'id' | 'parentId' | 'height' | 'view' | 'parentView' | 'parentVoterIndices' | 'parentVoterSigData'
>;

/** The certificate for its parent that a header holds. */
export function certificateIn(header: FinalityHeader): Certificate {
  const { parentView: view, parentId: blockId, parentVoterIndices, parentVoterSigData } = header;
  return { view, blockId, voterIndices: parentVoterIndices, voterSigData: parentVoterSigData };
}

/**
 * The highest block that these headers prove final: the parent of a block of the very next view for which two thirds have
 * voted, as the header after that shows (flow-go 0.29 and later). `headers` are consecutive, ascending, and each the parent
 * of the next; fewer than three decide nothing. Verifies one certificate: everything below follows by hash. Expected errors:
 * those of `verify`.
 */
export async function provenFinal(
  headers: readonly FinalityHeader[],
  verify: (certificate: Certificate) => Promise<CertificateVerdict> | CertificateVerdict,
) {
  for (let index = headers.length - 1; index >= 2; index--) {
    const [block, child, grandchild] = headers.slice(index - 2, index + 1);
    if (block === undefined || child === undefined || grandchild === undefined) continue;
    // Two thirds of the committee did not sign what a header claims; `height` is that of the block with the certificate.
    const refused = (reason: string) => ({ kind: 'refused', height: grandchild.height, reason }) as const;
    if (child.parentId !== block.id || grandchild.parentId !== child.id)
      return refused('the headers are not a chain');
    if (grandchild.parentView !== child.view)
      return refused('the certificate is for another view of the parent');
    if (child.view !== block.view + 1) continue;
    const verdict = await verify(certificateIn(grandchild));
    if (!verdict.valid) return refused(verdict.reason);
    const { signers, weight, threshold } = verdict;
    const certificate = { height: child.height, view: child.view, signers, weight, threshold };
    // The block at this height and all below it are final; the certificate proves it.
    const { height, id, parentId } = block;
    return { kind: 'final', height, id, parentId, certificate } as const;
  }
  // No two consecutive views among these blocks: the next pair of consecutive views decides for all.
  return { kind: 'undecided' } as const;
}
