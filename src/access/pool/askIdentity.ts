import type { Clock } from '../../runtime/index.js';
import { namedRoot } from '../transport/upstreamErrors.js';
import type { AccessNode, BlockHeader, CallOptions, NodeVersionInfo } from '../types.js';
import { UpstreamError } from '../UpstreamError.js';
import type { UpstreamErrorKind } from '../UpstreamError.js';
import { compareBlocks, outcomeOf } from './compareBlocks.js';
import type { Expectation, NodeIdentity } from './nodeIdentity.js';

/** Answers that say "I have no such thing", whatever the reason: they tell nothing about who the node is. */
const NOTHING_THERE: ReadonlySet<UpstreamErrorKind> = new Set([
  'not_found',
  'not_yet',
  'below_root',
  'invalid_argument',
  'failed_precondition',
  'unimplemented',
]);

/** What is to be asked of a node beside who it is, and how long it is waited for. */
export interface Inquiry {
  /** Deadline of each call. */
  readonly timeoutMs: number;
  /** It is known to have another block than ours: how far both agree was looked for. */
  readonly isForeign: boolean;
  readonly clock: Clock;
}

/**
 * Asks a node who it is, in four calls side by side and few more. A node that lacks a call, or fails it, is served all the same:
 * what it does not tell stays open. All it has to tell is its chain, in its parameters or in its latest header. Expected errors:
 * `UpstreamError` when it tells neither; the signal's abort reason.
 */
export async function askIdentity(
  node: AccessNode,
  expectation: Expectation,
  signal: AbortSignal,
  inquiry: Inquiry,
): Promise<NodeIdentity> {
  const options = { signal, timeoutMs: inquiry.timeoutMs };
  const known = expectation.watermark;
  const [parameters, info, atWatermark, head] = await Promise.all([
    outcomeOf(node.getNetworkParameters(options)),
    outcomeOf(node.getNodeVersionInfo(options)),
    known === undefined ? undefined : outcomeOf(node.getBlockByHeight(known.height, options)),
    outcomeOf(node.getLatestBlockHeader(false, options)),
  ]);
  const chainId = chainOf(parameters, head);
  const roots = await askRoots(node, believable(node, info, head), { ...options, clock: inquiry.clock });
  const version = info instanceof UpstreamError ? { semver: '', sporkId: '' } : info;
  const { semver, sporkId } = version;
  const headHeight = head instanceof UpstreamError ? undefined : head.height;
  const comparison =
    known === undefined
      ? undefined
      : await compareBlocks(node, { expectation, known, atWatermark, headHeight, ...inquiry }, options);
  return { chainId, semver, sporkId, ...roots, comparison, head: headHeight };
}

function chainOf(
  parameters: { readonly chainId: string } | UpstreamError,
  head: BlockHeader | UpstreamError,
): string {
  if (!(parameters instanceof UpstreamError)) return parameters.chainId;
  if (!(head instanceof UpstreamError)) return head.chainId;
  throw parameters.kind === 'unimplemented' ? head : parameters;
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
  options: CallOptions & { readonly signal: AbortSignal; readonly timeoutMs: number; readonly clock: Clock },
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
  const zero = await askZero(node, options);
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

/** Asks for block 0, by stream where the call names no root. The answer, or the refusal that may name one. */
async function askZero(
  node: AccessNode,
  {
    signal,
    timeoutMs,
    clock,
  }: { readonly signal: AbortSignal; readonly timeoutMs: number; readonly clock: Clock },
): Promise<'there' | UpstreamError> {
  const answer = await outcomeOf(node.getBlockByHeight(0, { signal, timeoutMs }));
  if (!(answer instanceof UpstreamError)) return 'there';
  if (answer.kind === 'below_root') return answer;
  const limit = new AbortController();
  const timer = clock.setTimer(timeoutMs, () => limit.abort());
  try {
    const bounded = AbortSignal.any([signal, limit.signal]);
    for await (const { block } of node.subscribeBlocks(0, { signal: bounded }))
      return block.height === 0 ? 'there' : answer;
    return answer;
  } catch (error) {
    if (error instanceof UpstreamError) return error.kind === 'below_root' ? error : answer;
    if (signal.aborted || !limit.signal.aborted) throw error;
    return answer;
  } finally {
    timer.cancel();
  }
}
