import { within, type Clock } from '../../../runtime/index.js';
import { faultOf, troubleOf } from '../../selection/NodeTroubles.js';
import { readStream } from '../../transport/streams/readStream.js';
import { namedRoot } from '../../transport/upstreamErrors.js';
import type { AccessNode, BlockDigest, BlockHeader } from '../../types.js';
import type { NodeVersionInfo, ReceivedBlock } from '../../types.js';
import { outcomeOf, UpstreamError, type UpstreamErrorKind } from '../../UpstreamError.js';
import { highestShared } from './highestShared.js';
import type { BlockComparison, Expectation, NodeIdentity } from './nodeIdentity.js';

/** Longest wait for one answer before the next question is sent. */
const NEXT_ASKED_AFTER_MS = 500;

/** What else to ask in the handshake, and how long to wait. */
export interface Inquiry {
  readonly timeoutMs: number;
  /** True when its block is known to differ from ours: the highest common height was searched already. */
  readonly isForeign: boolean;
  /** An index may begin below the spork of its head, the only one that it names. */
  readonly isIndexer: boolean;
  readonly clock: Clock;
}

/**
 * Identifies a node in four or a few more calls. A node that lacks a call, or fails it, is still used: what it does not
 * report stays unknown. Only its chain is required, from its parameters or its latest header. The calls are sent one
 * after another, the header last: a call that breaks the connection breaks all calls under way on it. Expected errors:
 * `UpstreamError` when the chain stays unknown, or the height where it diverged from ours; the signal's abort reason.
 */
export async function askIdentity(
  node: AccessNode,
  expectation: Expectation,
  signal: AbortSignal,
  inquiry: Inquiry,
  mayAskAgain = true,
): Promise<NodeIdentity> {
  const options = { signal, timeoutMs: inquiry.timeoutMs };
  const known = expectation.watermark ?? expectation.checkpoint;
  const next = inTurns(inquiry.clock);
  const kinds = new Set<UpstreamErrorKind>();
  const note = <T>(answer: T | UpstreamError): T | UpstreamError => {
    if (answer instanceof UpstreamError) kinds.add(answer.kind);
    return answer;
  };
  const [parameters, info, atKnown, head] = await Promise.all([
    next(() => node.getNetworkParameters(options)).then(note),
    next(() => node.getNodeVersionInfo(options)).then(note),
    known && next(() => node.getBlockByHeight(known.height, options)).then(note),
    next(() => node.getLatestBlockHeader(false, options)).then(note),
  ]);
  const blockAt: BlockAt = async (height) => note(await outcomeOf(node.getBlockByHeight(height, options)));
  const chainId = chainOf(parameters, head);
  const roots = await askRoots(node, believable(node, info, head), signal, inquiry);
  const { semver, sporkId } = info instanceof UpstreamError ? { semver: '', sporkId: '' } : info;
  const headHeight = head instanceof UpstreamError ? undefined : head.height;
  const found = await compareBlocks(expectation, known, atKnown, headHeight, blockAt);
  const isOther = found !== undefined && found.ours !== found.theirs && !inquiry.isForeign;
  const comparison = isOther
    ? { ...found, sharedHeight: await sharedHeight(expectation, found.height, blockAt) }
    : found;
  // The connection was lost meanwhile: another node may answer at the address now, so the answers do not count.
  if (kinds.has('unavailable') && mayAskAgain) return askIdentity(node, expectation, signal, inquiry, false);
  const isVague = [...kinds].some((kind) => troubleOf(kind) === 'unreachable');
  return { chainId, semver, sporkId, ...roots, comparison, head: headHeight, isVague };
}

type BlockAt = (height: number) => Promise<ReceivedBlock | UpstreamError>;
type Ask = <T>(ask: () => Promise<T>) => Promise<T | UpstreamError>;

/** Sends one question after another, without waiting for a late answer. */
function inTurns(clock: Clock): Ask {
  let turn = Promise.resolve();
  return (ask) => {
    const outcome = turn.then(() => outcomeOf(ask()));
    const isOver = (): void => undefined;
    turn = within(clock, NEXT_ASKED_AFTER_MS, outcome).then(isOver, isOver);
    return outcome;
  };
}

function chainOf(
  parameters: { readonly chainId: string } | UpstreamError,
  head: BlockHeader | UpstreamError,
): string {
  if (!(parameters instanceof UpstreamError)) return parameters.chainId;
  if (!(head instanceof UpstreamError)) return head.chainId;
  throw parameters.kind === 'unimplemented' ? head : parameters;
}

/** No chain begins above its own head: if a node claims so, its root is found in another way. */
function believable(
  { name }: AccessNode,
  info: NodeVersionInfo | UpstreamError,
  head: BlockHeader | UpstreamError,
): NodeVersionInfo | UpstreamError {
  if (info instanceof UpstreamError || head instanceof UpstreamError) return info;
  const root = Math.max(info.sporkRootHeight, info.nodeRootHeight);
  if (root <= head.height) return info;
  const method = 'GetNodeVersionInfo';
  const said = `${method} at ${name}: says that its chain begins at ${root}, above its own head, ${head.height}`;
  return new UpstreamError('malformed', { node: name, method }, said);
}

/**
 * Where the node and its spork begin. Zero may mean "not reported" (older nodes lack the fields): then height 0 decides.
 */
async function askRoots(
  node: AccessNode,
  info: NodeVersionInfo | UpstreamError,
  signal: AbortSignal,
  inquiry: Inquiry,
): Promise<Pick<NodeIdentity, 'sporkRootHeight' | 'lowestHeight' | 'openRoot'>> {
  const reported = (height: number): number | undefined => (height === 0 ? undefined : height);
  const { isIndexer } = inquiry;
  const isSilent = info instanceof UpstreamError;
  // An index that names its spork knows the first heights of the spork and its own: height 0 would add nothing.
  const isSure = isIndexer && !isSilent && info.sporkId !== '';
  const sporkRoot = isSure ? info.sporkRootHeight : isSilent ? undefined : reported(info.sporkRootHeight);
  const nodeRoot = isSure ? info.nodeRootHeight : isSilent ? undefined : reported(info.nodeRootHeight);
  if (nodeRoot !== undefined && (isIndexer || sporkRoot !== undefined)) {
    const lowestHeight = isIndexer ? nodeRoot : Math.max(sporkRoot ?? 0, nodeRoot);
    return { sporkRootHeight: sporkRoot, lowestHeight, openRoot: undefined };
  }
  const zero = await askZero(node, signal, inquiry);
  const isThere = zero === 'there';
  const root = isThere ? undefined : namedRoot(zero.message);
  const lowestHeight = isThere ? (sporkRoot ?? 0) : (nodeRoot ?? root?.height ?? sporkRoot);
  // Its spork's id is missing: id and root are recorded once the node names the id.
  if (isSilent && info.kind !== 'unimplemented')
    return { sporkRootHeight: undefined, lowestHeight, openRoot: { why: info, isFailing: true } };
  // A node that lacks height 0 only because it joined later belongs to a spork that begins there.
  const named = isThere || root?.of === 'node' ? 0 : root?.of === 'spork' ? root.height : undefined;
  const sporkRootHeight = sporkRoot ?? named;
  const isOpen = !isThere && root === undefined && sporkRootHeight === undefined;
  // A node that lacks it has no fault. A busy one may have it.
  const isFailing = !isThere && (faultOf(zero.kind) !== undefined || zero.kind === 'rate_limited');
  const openRoot = isOpen ? { why: zero, isFailing } : undefined;
  return { sporkRootHeight, lowestHeight, openRoot };
}

/** The node has a block there, valid or not: a block of another chain cannot be proven for ours. */
const HAS_BLOCK: ReadonlySet<UpstreamErrorKind> = new Set(['forged', 'unproven']);

/** Requests block 0, by stream if the call fails or is slow. Returns the refusal, which may name a root, if any. */
async function askZero(
  node: AccessNode,
  signal: AbortSignal,
  { timeoutMs, clock }: Inquiry,
): Promise<'there' | UpstreamError> {
  const isSure = (said: 'there' | 'late' | UpstreamError | undefined) =>
    said === 'there' || (said instanceof UpstreamError && said.kind === 'below_root');
  const call = outcomeOf(node.getBlockByHeight(0, { signal, timeoutMs })).then((answer) =>
    answer instanceof UpstreamError && !HAS_BLOCK.has(answer.kind) ? answer : 'there',
  );
  if (isSure(await within(clock, NEXT_ASKED_AFTER_MS, call))) return call;
  const open = (ended: AbortSignal) => node.subscribeBlocks(0, { signal: ended });
  const blocks = readStream({ open, signal, clock, limitMs: timeoutMs });
  try {
    const stream = outcomeOf(blocks.read()).then((read) => {
      if (read instanceof UpstreamError) return isSure(read) ? read : undefined;
      return read !== 'silent' && read.done !== true && read.value.block.height === 0 ? 'there' : undefined;
    });
    const first = await Promise.race([stream, call.then((said) => (isSure(said) ? said : stream))]);
    return first ?? (await call);
  } finally {
    blocks.cancel();
  }
}

/**
 * Compares our last block with the node's block of that height; for a node that is behind, its latest block with ours. A
 * block that is not finalized says nothing about the chain.
 */
async function compareBlocks(
  { storedBlock }: Expectation,
  known: BlockDigest | undefined,
  atKnown: ReceivedBlock | UpstreamError | undefined,
  headHeight: number | undefined,
  blockAt: BlockAt,
): Promise<BlockComparison | undefined> {
  if (known === undefined) return undefined;
  if (isFinalized(atKnown))
    return { isWatermark: true, height: known.height, ours: known.id, theirs: atKnown.block.id };
  if (headHeight === undefined || headHeight >= known.height) return undefined;
  // `undefined` for a height in a gap of the index.
  const stored = await storedBlock?.(headHeight);
  const received = stored && (await blockAt(headHeight));
  if (stored === undefined || !isFinalized(received)) return undefined;
  return { height: headHeight, isWatermark: false, ours: stored.id, theirs: received.block.id };
}

function isFinalized(received: ReceivedBlock | UpstreamError | undefined): received is ReceivedBlock {
  return received !== undefined && !(received instanceof UpstreamError) && received.status !== 'unknown';
}

/**
 * The highest common block below `differing`, if found. The operator is advised to rewind to it, so a node that falls
 * silent during the search fails the handshake, which is repeated. Expected errors: `UpstreamError`.
 */
async function sharedHeight(
  { firstHeight, storedBlock }: Expectation,
  differing: number,
  blockAt: BlockAt,
): Promise<number | undefined> {
  if (firstHeight === undefined) return undefined;
  return highestShared({ firstHeight, differing }, async (height) => {
    const stored = await storedBlock?.(height);
    const received = stored && (await blockAt(height));
    if (received instanceof UpstreamError && troubleOf(received.kind) === 'unreachable') throw received;
    return stored !== undefined && isFinalized(received) ? stored.id === received.block.id : undefined;
  });
}
