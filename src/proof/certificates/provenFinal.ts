import type { Identifier } from '../../flow/index.js';
import type { Certificate, CertificateVerdict } from './verifyCertificate.js';

/** What the rule reads of a header whose id is proven. */
export interface FinalityHeader {
  readonly id: Identifier;
  readonly parentId: Identifier;
  readonly height: number;
  readonly view: number;
  readonly parentView: number;
  readonly parentVoterIndices: Uint8Array;
  readonly parentVoterSigData: Uint8Array;
}

export type FinalityVerdict =
  /** The block at this height is final, and all below it. `certificate`: the one that shows it. */
  | {
      readonly kind: 'final';
      readonly height: number;
      readonly id: Identifier;
      readonly certificate: { readonly height: number; readonly view: number } & Accepted;
    }
  /** No two consecutive views among these blocks: the next block that is decides for all. */
  | { readonly kind: 'undecided' }
  /** Two thirds of the committee did not sign what a header says: at `height` is the block with the certificate. */
  | { readonly kind: 'refused'; readonly height: number; readonly reason: string };

type Accepted = Pick<Extract<CertificateVerdict, { valid: true }>, 'signers' | 'weight' | 'threshold'>;

/** The certificate for its parent that a header holds. */
export function certificateIn(header: FinalityHeader): Certificate {
  const { parentView, parentId, parentVoterIndices, parentVoterSigData } = header;
  return {
    view: parentView,
    blockId: parentId,
    voterIndices: parentVoterIndices,
    voterSigData: parentVoterSigData,
  };
}

/**
 * The highest block that these headers prove final: the parent of a block of the very next view for which two thirds
 * have voted, as the header after says (flow-go 0.29 and later). `headers` are consecutive, ascending, and each the
 * parent of the next; three at least decide anything. One certificate is verified, as all below follows by hash.
 * Expected errors: those of `verify`.
 */
export async function provenFinal(
  headers: readonly FinalityHeader[],
  verify: (certificate: Certificate) => Promise<CertificateVerdict> | CertificateVerdict,
): Promise<FinalityVerdict> {
  for (let index = headers.length - 1; index >= 2; index--) {
    const [block, child, grandchild] = headers.slice(index - 2, index + 1);
    if (block === undefined || child === undefined || grandchild === undefined) continue;
    const { height } = grandchild;
    if (child.parentId !== block.id || grandchild.parentId !== child.id) {
      return { kind: 'refused', height, reason: 'the headers are not a chain' };
    }
    if (grandchild.parentView !== child.view) {
      return { kind: 'refused', height, reason: 'the certificate is for another view of the parent' };
    }
    if (child.view !== block.view + 1) continue;
    const verdict = await verify(certificateIn(grandchild));
    if (!verdict.valid) return { kind: 'refused', height, reason: verdict.reason };
    const { signers, weight, threshold } = verdict;
    return {
      kind: 'final',
      height: block.height,
      id: block.id,
      certificate: { height: child.height, view: child.view, signers, weight, threshold },
    };
  }
  return { kind: 'undecided' };
}
