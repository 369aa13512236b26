import type { Identifier } from '../../../flow/index.js';
import type { BlockDigest } from '../../types.js';
import type { UpstreamError } from '../../UpstreamError.js';

/** A spork, as far as it distinguishes nodes. */
export interface SporkRoot {
  readonly rootHeight: number;
  /** Hex; empty when unknown. */
  readonly sporkId: string;
}

/** What a node must agree with. */
export interface Expectation {
  readonly chainId: string;
  /** The name of the network, as the operator gave it. */
  readonly network: string;
  /** The sporks that the store has crossed. */
  readonly sporks: readonly SporkRoot[];
  readonly watermark?: BlockDigest | undefined;
  /** The block that the operator trusts, which stands in for the watermark while there is none. */
  readonly checkpoint?: BlockDigest | undefined;
  readonly firstHeight?: number | undefined;
  /** The block that the store has at a height. */
  readonly storedBlock?: (height: number) => Promise<{ readonly id: Identifier } | undefined>;
}

export interface NodeIdentity {
  /** Empty when unknown. */
  readonly chainId: string;
  readonly semver: string;
  /** Hex; empty when unknown. */
  readonly sporkId: string;
  readonly sporkRootHeight: number | undefined;
  /** The lowest height it serves; `undefined` when unknown. */
  readonly lowestHeight: number | undefined;
  /**
   * Why it did not name the root of its spork: worth asking again. `isFailing`: it fails to answer. If not, it refused
   * block 0, as nodes do that cannot name their root and, briefly, those whose spork begins at 0.
   */
  readonly openRoot: { readonly why: UpstreamError; readonly isFailing: boolean } | undefined;
  /** One of our blocks and its block of that height; `undefined` when unknown. */
  readonly comparison: BlockComparison | undefined;
  /** The height of its latest finalized block; `undefined` when unknown. */
  readonly head: number | undefined;
  /** A question had no answer: worth asking again. */
  readonly isVague: boolean;
}

export interface BlockComparison {
  /** The height of our last block, or the node's head if lower. */
  readonly height: number;
  readonly isWatermark: boolean;
  readonly ours: Identifier;
  readonly theirs: Identifier;
  /** If they differ: the highest common block, if it was found. */
  readonly sharedHeight?: number | undefined;
}

/** Why a node is not one of ours; also the label of `foreign_nodes_total`. */
export type ForeignReason = 'chain' | 'spork' | 'block';

export interface Foreignness {
  readonly reason: ForeignReason;
  /** What we have: a chain id, a spork id or a block id. */
  readonly expected: string;
  /** What the node has instead. */
  readonly found: string;
  /** The height of the ids; `undefined` for a chain. */
  readonly height?: number;
  /** The highest common block, if it was found. */
  readonly sharedHeight?: number | undefined;
}

/**
 * Whether a node is foreign, and why.
 *
 * A different block at the watermark needs care: a new spork may have discarded our last blocks, and then the node is
 * right. The node is foreign when it belongs to a spork that the store has already crossed (within one spork a finalized
 * block never changes), when the network has no sporks and the node claims none, or when `confirmed`: another node of our
 * chain has our block. A node whose block contradicts the checkpoint is foreign too. Any other node is used; its block
 * does not link to ours, which is reported with the fix (parent_mismatch).
 */
export function foreignness(
  identity: NodeIdentity,
  expectation: Expectation,
  { confirmed, hasSporks }: { readonly confirmed: boolean; readonly hasSporks: boolean },
): Foreignness | undefined {
  if (identity.chainId !== '' && identity.chainId !== expectation.chainId) {
    return { reason: 'chain', expected: expectation.chainId, found: identity.chainId };
  }
  const { comparison, sporkRootHeight } = identity;
  const crossed = expectation.sporks.find(({ rootHeight }) => rootHeight === sporkRootHeight);
  if (crossed !== undefined && crossed.sporkId !== '' && identity.sporkId !== '') {
    const { sporkId: expected, rootHeight: height } = crossed;
    if (identity.sporkId !== expected) return { reason: 'spork', expected, found: identity.sporkId, height };
  }
  if (comparison === undefined || comparison.ours === comparison.theirs) return undefined;
  // A node of an earlier spork may still have blocks above its end that the next spork discarded.
  const ended = expectation.sporks.some(
    ({ rootHeight }) =>
      sporkRootHeight !== undefined && rootHeight > sporkRootHeight && rootHeight <= comparison.height,
  );
  const mayBeLater =
    expectation.watermark !== undefined &&
    crossed === undefined &&
    (hasSporks || sporkRootHeight !== undefined);
  if (ended || (mayBeLater && !confirmed)) return undefined;
  const { height, ours, theirs } = comparison;
  return { reason: 'block', expected: ours, found: theirs, height, sharedHeight: comparison.sharedHeight };
}

/** One or two sentences for the operator when all nodes are foreign: what was found, and how to fix it. */
export function foreignMessage(
  nodes: readonly { readonly name: string; readonly foreign: Foreignness }[],
  expectation: Expectation,
  source: 'access node' | 'peer',
): string {
  const { firstHeight, watermark } = expectation;
  const found = nodes.map(({ name, foreign }) => `${name} ${wordsOf(foreign, expectation)}`).join('; ');
  const another = `${found}. Name ${source === 'peer' ? 'a --peer' : 'an --access-node'}`;
  const reasons = new Set(nodes.map(({ foreign }) => foreign.reason));
  if (reasons.has('chain'))
    return `${another} of that network, or the --network that is served with a --data-dir of its own.`;
  if (watermark === undefined && !reasons.has('spork'))
    return `${another} of the chain that proof.checkpoint names, or correct that.`;
  const other = `${another} of the stored chain; or, if the network began anew, start with another --data-dir or --store`;
  const shared = nodes.map(({ foreign }) => foreign.sharedHeight ?? (firstHeight ?? 0) - 1);
  const target = Math.min(...shared);
  // Nothing of a store that begins at 0 can be kept.
  if (reasons.has('spork') || target < 0) return `${other}.`;
  return `${other}, or forget what the new chain does not have with "flow-collection-indexer rewind --to ${target} --yes".`;
}

/** In words that follow the name of the node. */
export function wordsOf(
  { reason, expected, found, height = 0 }: Foreignness,
  { network, watermark }: Expectation,
): string {
  switch (reason) {
    case 'chain':
      return `serves ${found}; --network ${network} expects ${expected}`;
    case 'spork':
      return `gives spork ${found} for root height ${height}, where the index has ${expected}`;
    case 'block':
      return `has block ${found} at height ${height}, where ${watermark === undefined ? 'proof.checkpoint names' : 'the index has'} ${expected}`;
  }
}
