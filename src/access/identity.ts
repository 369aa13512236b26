import type { Identifier } from '../flow/index.js';
import { namedRoot } from './errors.js';
import { UpstreamError } from './types.js';
import type { AccessNode, NodeVersionInfo, UpstreamErrorKind } from './types.js';

/** A spork as far as it tells nodes apart. */
export interface SporkRoot {
  readonly rootHeight: number;
  /** Hex; empty when nobody told. */
  readonly sporkId: string;
}

/** What a node must agree with. */
export interface Expectation {
  readonly chainId: string;
  /** What the operator calls it. */
  readonly network?: string;
  /** The sporks that the store has crossed. */
  readonly sporks: readonly SporkRoot[];
  /** The last block of the store. */
  readonly watermark?: { readonly height: number; readonly id: Identifier } | undefined;
}

/** Who a node says it is. */
export interface NodeIdentity {
  /** Empty when it does not tell. */
  readonly chainId: string;
  readonly semver: string;
  /** Hex; empty when it does not tell. */
  readonly sporkId: string;
  readonly sporkRootHeight: number | undefined;
  /** The lowest height it serves; `undefined` when it does not tell. */
  readonly lowestHeight: number | undefined;
  /**
   * It neither tells where its spork begins nor has block 0. So answer nodes that cannot tell, and for a moment those whose
   * spork begins at 0: worth asking again.
   */
  readonly isRootOpen: boolean;
  /** Our last block and its block of that height; `undefined` when either has none. */
  readonly watermark: WatermarkComparison | undefined;
  /** The latest finalized block that it has; `undefined` when it was not asked for it. */
  readonly latest: LatestBlock | 'untold' | undefined;
}

export interface LatestBlock {
  readonly height: number;
  /** Since the Unix epoch; `undefined` when the node does not tell. */
  readonly timestampMs: number | undefined;
}

export interface WatermarkComparison {
  readonly height: number;
  readonly ours: Identifier;
  readonly theirs: Identifier;
}

/** Why a node is not one of ours; also the label of `foreign_nodes_total`. */
export type ForeignReason = 'chain' | 'spork' | 'block';

export interface Foreignness {
  readonly reason: ForeignReason;
  /** What we hold: a chain id, a spork id or a block id. */
  readonly expected: string;
  /** What the node has in its place. */
  readonly found: string;
  /** The height that the ids are of; for a chain `undefined`. */
  readonly height?: number;
}

/** Answers that say "I have no such thing", whatever the reason: they tell nothing about who the node is. */
const NOTHING_THERE: ReadonlySet<UpstreamErrorKind> = new Set([
  'not_found',
  'not_yet',
  'below_root',
  'invalid_argument',
  'failed_precondition',
  'unimplemented',
  // Old nodes answer a missing block so ("failed to find").
  'internal',
]);

/**
 * Asks a node who it is, in up to four calls, and one more where its latest block is of interest. A node that lacks a call is
 * served all the same: what it cannot tell stays open. Expected errors: `UpstreamError` when it does not answer; the signal's
 * abort reason.
 */
export async function askIdentity(
  node: AccessNode,
  expectation: Expectation,
  signal: AbortSignal,
  wanted: { readonly latest: boolean } = { latest: false },
): Promise<NodeIdentity> {
  const parameters = await unless(['unimplemented'], node.getNetworkParameters({ signal }));
  const chainId = parameters?.chainId ?? (await node.getLatestBlockHeader(true, { signal })).chainId;
  const info = await unless(['unimplemented'], node.getNodeVersionInfo({ signal }));
  const roots = await askRoots(node, info, signal);

  let watermark: NodeIdentity['watermark'];
  const known = expectation.watermark;
  if (known !== undefined && known.height >= (roots.lowestHeight ?? 0)) {
    const received = await unless(NOTHING_THERE, node.getBlockByHeight(known.height, { signal }));
    // A block off the finalized chain is no statement about the chain.
    if (received !== undefined && received.status !== 'unknown') {
      watermark = { height: known.height, ours: known.id, theirs: received.block.id };
    }
  }
  const latest = wanted.latest
    ? ((await unless(NOTHING_THERE, node.getLatestBlockHeader(false, { signal }))) ?? 'untold')
    : undefined;
  return { chainId, semver: info?.semver ?? '', sporkId: info?.sporkId ?? '', ...roots, watermark, latest };
}

/** Where the node and its spork begin. Zero may mean "not told" (older nodes lack the fields): then height 0 decides. */
async function askRoots(
  node: AccessNode,
  info: NodeVersionInfo | undefined,
  signal: AbortSignal,
): Promise<Pick<NodeIdentity, 'sporkRootHeight' | 'lowestHeight' | 'isRootOpen'>> {
  const told = (height: number | undefined): number | undefined => (height === 0 ? undefined : height);
  const sporkRoot = told(info?.sporkRootHeight);
  const nodeRoot = told(info?.nodeRootHeight);
  if (sporkRoot !== undefined && nodeRoot !== undefined) {
    return { sporkRootHeight: sporkRoot, lowestHeight: Math.max(sporkRoot, nodeRoot), isRootOpen: false };
  }
  try {
    await node.getBlockByHeight(0, { signal });
    return { sporkRootHeight: sporkRoot ?? 0, lowestHeight: sporkRoot ?? 0, isRootOpen: false };
  } catch (error) {
    if (!(error instanceof UpstreamError) || !NOTHING_THERE.has(error.kind)) throw error;
    const root = namedRoot(error.message);
    // A node that misses height 0 only because it joined later is of a spork that begins there.
    const named = root?.of === 'spork' ? root.height : root?.of === 'node' ? 0 : undefined;
    const sporkRootHeight = sporkRoot ?? named;
    return {
      sporkRootHeight,
      lowestHeight: nodeRoot ?? root?.height ?? sporkRoot,
      isRootOpen: sporkRootHeight === undefined && root === undefined,
    };
  }
}

/** The call's answer, or `undefined` when it failed with one of these kinds. */
async function unless<T>(kinds: Iterable<UpstreamErrorKind>, call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof UpstreamError && [...kinds].includes(error.kind)) return undefined;
    throw error;
  }
}

/**
 * Whether a node is foreign, and why.
 *
 * Another block at the watermark needs care: a new spork may have discarded our last blocks, and then the node is
 * right. It counts against the node when the node is of a spork that the store has crossed already (within one spork a
 * finalized block never changes), or when `confirmed`: another node of our chain has our block. Else the node is
 * served, its block does not link to ours, and that is reported with the way out (parent_mismatch).
 */
export function foreignness(
  identity: NodeIdentity,
  expectation: Expectation,
  confirmed: boolean,
): Foreignness | undefined {
  if (identity.chainId !== '' && identity.chainId !== expectation.chainId) {
    return { reason: 'chain', expected: expectation.chainId, found: identity.chainId };
  }
  const { watermark, sporkRootHeight } = identity;
  const crossed = expectation.sporks.find(({ rootHeight }) => rootHeight === sporkRootHeight);
  if (crossed !== undefined && crossed.sporkId !== '' && identity.sporkId !== '') {
    const { sporkId: expected, rootHeight: height } = crossed;
    if (identity.sporkId !== expected) return { reason: 'spork', expected, found: identity.sporkId, height };
  }
  if (watermark === undefined || watermark.ours === watermark.theirs) return undefined;
  // A node of an earlier spork may still hold blocks above its end that the next spork discarded.
  const ended = expectation.sporks.some(
    ({ rootHeight }) =>
      sporkRootHeight !== undefined && rootHeight > sporkRootHeight && rootHeight <= watermark.height,
  );
  if (ended || (crossed === undefined && !confirmed)) return undefined;
  const { height, ours, theirs } = watermark;
  return { reason: 'block', expected: ours, found: theirs, height };
}

/** True when the node has our last block: it then stands witness against nodes that have another. */
export function confirmsWatermark(identity: NodeIdentity): boolean {
  return identity.watermark !== undefined && identity.watermark.ours === identity.watermark.theirs;
}
