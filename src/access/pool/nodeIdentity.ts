import type { Identifier } from '../../flow/index.js';
import type { Clock } from '../../runtime/index.js';
import { namedRoot } from '../transport/upstreamErrors.js';
import { UpstreamError } from '../UpstreamError.js';
import type {
  AccessMethod,
  AccessNode,
  BlockHeader,
  CallOptions,
  NodeVersionInfo,
  ReceivedBlock,
} from '../types.js';
import type { UpstreamErrorKind } from '../UpstreamError.js';

/** A spork as far as it tells nodes apart. */
export interface SporkRoot {
  readonly rootHeight: number;
  /** Hex; empty when nobody told. */
  readonly sporkId: string;
}

export interface BlockName {
  readonly height: number;
  readonly id: Identifier;
}

/** What a node must agree with. */
export interface Expectation {
  readonly chainId: string;
  /** The name of the network, as the operator gave it. */
  readonly network: string;
  /** The sporks that the store has crossed. */
  readonly sporks: readonly SporkRoot[];
  /** The last block of the store. */
  readonly watermark?: BlockName | undefined;
  /** The first height of the store. */
  readonly firstHeight?: number | undefined;
  /** The block that the store has at a height. */
  readonly storedBlock?: (height: number) => Promise<{ readonly id: Identifier } | undefined>;
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
  /** Why it did not tell where its spork begins, where it did not answer: it may yet. */
  readonly rootTrouble: UpstreamError | undefined;
  /** How it refused block 0, by which its root would be known; `undefined` where that was not open. */
  readonly rootRefusal: UpstreamError | undefined;
  /** A block of ours and its block of that height; `undefined` when it cannot be said. */
  readonly comparison: BlockComparison | undefined;
  /** The height of the latest finalized block that it has; `undefined` when it does not tell. */
  readonly head: number | undefined;
  /** The latest finalized block that it has; `undefined` when it was not asked for it. */
  readonly latest: LatestBlock | 'untold' | undefined;
}

export interface LatestBlock {
  readonly height: number;
  /** Since the Unix epoch; `undefined` when the node does not tell. */
  readonly timestampMs: number | undefined;
}

export interface BlockComparison {
  /** That of our last block; the node's head where that is lower. */
  readonly height: number;
  readonly isWatermark: boolean;
  readonly ours: Identifier;
  readonly theirs: Identifier;
  /** Where they differ: the highest block that both have, if it was found. */
  readonly sharedHeight?: number | undefined;
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
  /** The highest block that it has and we have, if it was found. */
  readonly sharedHeight?: number | undefined;
}

/** Answers that say "I have no such thing", whatever the reason: they tell nothing about who the node is. */
const NOTHING_THERE: ReadonlySet<UpstreamErrorKind> = new Set([
  'not_found',
  'not_yet',
  'below_root',
  'invalid_argument',
  'failed_precondition',
  'unimplemented',
]);

/** A question does not wait for the answer to the one before for longer than this. */
const NEXT_ASKED_AFTER_MS = 500;

/** What is to be asked of a node beside who it is, and how long it is waited for. */
export interface Inquiry {
  /** Deadline of each call. */
  readonly timeoutMs: number;
  /** Its latest block is of interest. */
  readonly latest: boolean;
  /** It is known to have another block than ours: how far both agree was looked for. */
  readonly isForeign: boolean;
  /** Told of each question as it leaves. */
  readonly onAsked: (method: AccessMethod) => void;
  readonly clock: Clock;
}

/**
 * Asks a node who it is, in four calls and few more. A node that lacks a call, or fails it, is served all the same: what it does
 * not tell stays open. All it has to tell is its chain, in its parameters or in its latest header. One call after the other, the header
 * last: a call that breaks the connection breaks off all that are under way on it. Expected errors: `UpstreamError` when it tells
 * neither; the signal's abort reason.
 */
export async function askIdentity(
  node: AccessNode,
  expectation: Expectation,
  signal: AbortSignal,
  inquiry: Inquiry,
): Promise<NodeIdentity> {
  const options = { signal, timeoutMs: inquiry.timeoutMs };
  const known = expectation.watermark;
  const next = inTurns(inquiry);
  const [parameters, info, atWatermark, head] = await Promise.all([
    next('GetNetworkParameters', () => node.getNetworkParameters(options)),
    next('GetNodeVersionInfo', () => node.getNodeVersionInfo(options)),
    known && next('GetBlockByHeight', () => node.getBlockByHeight(known.height, options)),
    next('GetLatestBlockHeader', () => node.getLatestBlockHeader(false, options)),
  ]);
  const chainId = chainOf(parameters, head);
  const roots = await askRoots(node, believable(node, info, head), signal, inquiry);
  const version = info instanceof UpstreamError ? { semver: '', sporkId: '' } : info;
  const { semver, sporkId } = version;
  const headHeight = head instanceof UpstreamError ? undefined : head.height;
  const comparison =
    known === undefined
      ? undefined
      : await compare(node, { expectation, known, atWatermark, headHeight, inquiry }, options);
  const latest = !inquiry.latest
    ? undefined
    : !(head instanceof UpstreamError)
      ? head
      : NOTHING_THERE.has(head.kind)
        ? 'untold'
        : undefined;
  return { chainId, semver, sporkId, ...roots, comparison, head: headHeight, latest };
}

/** What came of a call that may fail. Expected errors: the signal's abort reason. */
async function outcomeOf<T>(call: Promise<T>): Promise<T | UpstreamError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof UpstreamError) return error;
    throw error;
  }
}

type Ask = <T>(method: AccessMethod, ask: () => Promise<T>) => Promise<T | UpstreamError>;

/** Asks one thing after the other, as far as answers come soon. */
function inTurns({ clock, onAsked }: Inquiry): Ask {
  let turn = Promise.resolve();
  return (method, ask) => {
    const outcome = turn.then(() => {
      onAsked(method);
      return outcomeOf(ask());
    });
    turn = settledSoon(outcome, clock);
    return outcome;
  };
}

/** Resolves once it is settled, or has not been for a while. */
function settledSoon(outcome: Promise<unknown>, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(NEXT_ASKED_AFTER_MS, resolve);
    const settle = (): void => {
      timer.cancel();
      resolve();
    };
    outcome.then(settle, settle);
  });
}

function chainOf(
  parameters: { readonly chainId: string } | UpstreamError,
  head: BlockHeader | UpstreamError,
): string {
  if (!(parameters instanceof UpstreamError)) return parameters.chainId;
  if (!(head instanceof UpstreamError)) return head.chainId;
  throw parameters.kind === 'unimplemented' ? head : parameters;
}

/**
 * Our last block beside the node's of that height; where the node has not come so far, its own latest block beside ours. A block
 * off the finalized chain is no statement about the chain.
 */
async function compare(
  node: AccessNode,
  asked: {
    readonly expectation: Expectation;
    readonly known: BlockName;
    readonly atWatermark: ReceivedBlock | UpstreamError | undefined;
    readonly headHeight: number | undefined;
    readonly inquiry: Inquiry;
  },
  options: CallOptions,
): Promise<BlockComparison | undefined> {
  const { expectation, known, atWatermark, headHeight, inquiry } = asked;
  let found: BlockComparison | undefined;
  if (isFinalized(atWatermark)) {
    const { height, id: ours } = known;
    found = { height, isWatermark: true, ours, theirs: atWatermark.block.id };
  } else if (headHeight !== undefined && headHeight < known.height) {
    const [stored, received] = await Promise.all([
      expectation.storedBlock?.(headHeight),
      outcomeOf(node.getBlockByHeight(headHeight, options)),
    ]);
    if (stored !== undefined && isFinalized(received))
      found = { height: headHeight, isWatermark: false, ours: stored.id, theirs: received.block.id };
  }
  if (found === undefined || found.ours === found.theirs || inquiry.isForeign) return found;
  return { ...found, sharedHeight: await sharedHeight(node, expectation, found.height, options) };
}

function isFinalized(received: ReceivedBlock | UpstreamError | undefined): received is ReceivedBlock {
  return received !== undefined && !(received instanceof UpstreamError) && received.status !== 'unknown';
}

/** The highest block below `differing` that both have, by halving; `undefined` when there is none, or no telling. */
async function sharedHeight(
  node: AccessNode,
  { firstHeight, storedBlock }: Expectation,
  differing: number,
  options: CallOptions,
): Promise<number | undefined> {
  if (firstHeight === undefined) return undefined;
  let shared = firstHeight - 1;
  for (let other = differing; other - shared > 1;) {
    const height = Math.floor((shared + other) / 2);
    const [stored, received] = await Promise.all([
      storedBlock?.(height),
      outcomeOf(node.getBlockByHeight(height, options)),
    ]);
    if (stored === undefined || !isFinalized(received)) return undefined;
    if (stored.id === received.block.id) shared = height;
    else other = height;
  }
  return shared < firstHeight ? undefined : shared;
}

/** No chain begins above its own head: a node that says so is asked another way where it begins. */
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

type Roots = Pick<
  NodeIdentity,
  'sporkRootHeight' | 'lowestHeight' | 'isRootOpen' | 'rootTrouble' | 'rootRefusal'
>;

/** Where the node and its spork begin. Zero may mean "not told" (older nodes lack the fields): then height 0 decides. */
async function askRoots(
  node: AccessNode,
  info: NodeVersionInfo | UpstreamError,
  signal: AbortSignal,
  inquiry: Inquiry,
): Promise<Roots> {
  const told = (height: number): number | undefined => (height === 0 ? undefined : height);
  const isSilent = info instanceof UpstreamError;
  const sporkRoot = isSilent ? undefined : told(info.sporkRootHeight);
  const nodeRoot = isSilent ? undefined : told(info.nodeRootHeight);
  const rootTrouble = isSilent && info.kind !== 'unimplemented' ? info : undefined;
  if (sporkRoot !== undefined && nodeRoot !== undefined) {
    const lowestHeight = Math.max(sporkRoot, nodeRoot);
    const rootRefusal = undefined;
    return { sporkRootHeight: sporkRoot, lowestHeight, isRootOpen: false, rootTrouble, rootRefusal };
  }
  const zero = await askZero(node, signal, inquiry);
  // The spork's id is missing: it is recorded once the node tells it, and so is its root.
  const isOpen = rootTrouble !== undefined;
  if (!(zero instanceof UpstreamError)) {
    const root = sporkRoot ?? 0;
    return {
      sporkRootHeight: isOpen ? undefined : root,
      lowestHeight: root,
      isRootOpen: isOpen,
      rootTrouble,
      rootRefusal: undefined,
    };
  }
  const root = namedRoot(zero.message);
  // A node that misses height 0 only because it joined later is of a spork that begins there.
  const named = root?.of === 'spork' ? root.height : root?.of === 'node' ? 0 : undefined;
  const sporkRootHeight = isOpen ? undefined : (sporkRoot ?? named);
  const isAnswer = NOTHING_THERE.has(zero.kind);
  return {
    sporkRootHeight,
    lowestHeight: nodeRoot ?? root?.height ?? sporkRoot,
    isRootOpen: isOpen || (sporkRootHeight === undefined && root === undefined),
    rootTrouble: rootTrouble ?? (isAnswer ? undefined : zero),
    rootRefusal: root === undefined ? zero : undefined,
  };
}

/** Asks for block 0, and by stream where the call names no root, or not soon. The answer, or the refusal that may name one. */
async function askZero(
  node: AccessNode,
  signal: AbortSignal,
  { timeoutMs, clock, onAsked }: Inquiry,
): Promise<'there' | UpstreamError> {
  const limit = new AbortController();
  const timer = clock.setTimer(timeoutMs, () => limit.abort());
  try {
    onAsked('GetBlockByHeight');
    const call = outcomeOf(node.getBlockByHeight(0, { signal, timeoutMs })).then((answer) =>
      answer instanceof UpstreamError ? answer : 'there',
    );
    const early = call.then((answer) => (tellsRoot(answer) ? answer : undefined));
    const isTold = await Promise.race([early, settledSoon(call, clock)]);
    if (isTold !== undefined) return isTold;
    const streamed = streamZero(node, AbortSignal.any([signal, limit.signal])).catch((error: unknown) => {
      if (signal.aborted || !limit.signal.aborted) throw error;
      return undefined;
    });
    const first = await Promise.race([early, streamed]);
    return first ?? (await streamed) ?? (await call);
  } finally {
    timer.cancel();
    limit.abort();
  }
}

function tellsRoot(answer: 'there' | UpstreamError): boolean {
  return answer === 'there' || answer.kind === 'below_root';
}

/** What the block stream tells of block 0; `undefined` when that is nothing. */
async function streamZero(
  node: AccessNode,
  signal: AbortSignal,
): Promise<'there' | UpstreamError | undefined> {
  try {
    for await (const { block } of node.subscribeBlocks(0, { signal }))
      return block.height === 0 ? 'there' : undefined;
    return undefined;
  } catch (error) {
    if (!(error instanceof UpstreamError)) throw error;
    return error.kind === 'below_root' ? error : undefined;
  }
}

/**
 * Whether a node is foreign, and why.
 *
 * Another block at the watermark needs care: a new spork may have discarded our last blocks, and then the node is
 * right. It counts against the node when the node is of a spork that the store has crossed already (within one spork a
 * finalized block never changes), when the network has no sporks and the node tells of none, or when `confirmed`: another node of our chain has our block. Else the node is
 * served, its block does not link to ours, and that is reported with the way out (parent_mismatch).
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
  // A node of an earlier spork may still hold blocks above its end that the next spork discarded.
  const ended = expectation.sporks.some(
    ({ rootHeight }) =>
      sporkRootHeight !== undefined && rootHeight > sporkRootHeight && rootHeight <= comparison.height,
  );
  const mayBeLater = crossed === undefined && (hasSporks || sporkRootHeight !== undefined);
  if (ended || (mayBeLater && !confirmed)) return undefined;
  const { height, ours, theirs } = comparison;
  return { reason: 'block', expected: ours, found: theirs, height, sharedHeight: comparison.sharedHeight };
}

/** True when the node has our last block: it then stands witness against nodes that have another. */
export function confirmsWatermark(identity: NodeIdentity): boolean {
  const { comparison } = identity;
  return comparison?.isWatermark === true && comparison.ours === comparison.theirs;
}
