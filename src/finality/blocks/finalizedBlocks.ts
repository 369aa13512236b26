import { faultOf, NodeChooser, readStream, streamPace, UpstreamError } from '../../access/index.js';
import type { AccessNode, ReceivedBlock, UpstreamErrorKind, Way } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal, type BlockJob } from '../../jobqueue/index.js';
import { Pause, runTogether } from '../../runtime/index.js';
import { askForBlock, type Answer } from '../forks/askForBlock.js';
import { forkResolver, type ChainTrouble } from '../forks/forkResolver.js';
import { linkedBlocks, type RootParent } from '../forks/linkedBlocks.js';
import { tipChecker } from '../forks/tipChecker.js';
import { BLOCK_CALL, BLOCK_STREAM, type ChainDependencies } from '../ports.js';
import type { BlockHead } from '../../storage/index.js';

export interface FinalizedBlocksOptions {
  /**
   * A height that the chain is known to have reached, whatever head is reported. Lagging nodes report a low head at
   * first, and a block far below the tip must not count as the tip. Default: none.
   */
  readonly reachedHeight?: number | undefined;
  readonly sporkRoots?: readonly RootParent[];
  /** For a range: which of its neighbours are not indexed and have to be requested, to prove the ends of the range. */
  readonly neighbours?: { readonly below: boolean; readonly above: boolean } | undefined;
  /** The lowest height of the store, for the `rewind` advice. Default: the one above the watermark at construction. */
  readonly firstHeight?: number | undefined;
  /** Delay before a failed source is replaced. */
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
}

/** The name of the stream in metrics and logs. */
const STREAM_NAME = 'blocks';

/** Within this distance of the head a block is handed out before its child is known. */
const TIP_HEIGHTS = 2;

/**
 * Failed searches for a node before that is reported: at the edge of a spork the next nodes may not have completed their
 * handshake.
 */
const UNSERVED_LOOKS_BEFORE_REPORT = 5;

/** After this many rounds in which no node has the block below, a range begins without it: the nodes' history may begin here. */
const ROUNDS_BEFORE_ABSENT = 3;
const ROUND_EVERY_MS = 1_000;

/** Blocks requested at once from a node without streams. */
const PARALLEL_READS = 8;
/** Consecutive blocks after which a stream counts as working: one that breaks after each block does not. */
const BLOCKS_BEFORE_CONFIRMED = 3;

/** Delay before NotFound at the tip is retried. */
const NOT_FOUND_RETRY_MS = 200;
/** For how long it is retried that quickly: some nodes get a block a moment after the others. */
const QUICK_RETRIES_MS = 5_000;

/** A stream that fails after we did not read it for this long is our fault: the node rightly closed it. */
const FORGIVEN_PAUSE_MS = 10_000;

/** How long a node without a free stream, or with a slow one, is polled before a stream is requested again. */
const POLLED_INSTEAD_MS = 60_000;

/** Errors of a node that count neither against it nor against the call: it is only asked after the others. */
const NO_FAULT: ReadonlySet<UpstreamErrorKind> = new Set([
  'rate_limited',
  'unimplemented',
  'below_root',
  'unproven',
]);

/**
 * The finalized blocks as jobs: reads them ahead of the watermark, links them parent by parent, and only then hands them
 * out. Call `notify` when the watermark or the head has moved.
 *
 * It reads in ascending order, from one node at a time, by stream or by parallel calls, and stops reading while the
 * window is full. For a block that does not link, `forkResolver` decides which side is wrong.
 *
 * A block that links may still be off the finalized chain, which shows only when its child names another parent. If it
 * were complete and durable by then, only a `rewind` would help. So the last linked block waits for its child.
 * Exceptions: near the tip, where no child may be known for long, and at the stop height, where no child may be requested
 * or no node has it (there `tipChecker` confirms the block); a window of one; a block that the spork table confirms.
 *
 * Bounds: it requests heights in [watermark + 1 .. min(watermark + K, head, stopHeight)] only, and holds no others; for a
 * range also the two neighbours (`neighbours`), the upper one within the window.
 */
export function finalizedBlocks(options: FinalizedBlocksOptions, dependencies: ChainDependencies) {
  const { backoffMinMs: minMs, backoffMaxMs: maxMs, neighbours, sporkRoots = [] } = options;
  const { clock, logger, metrics, nodes, onReplaced, signal: consumer, window } = dependencies;
  const indexed = window.latestIndexedHeight();
  // A spork in the table has started.
  const begun = sporkRoots.map(({ rootHeight }) => rootHeight + TIP_HEIGHTS);
  const reachedHeight = Math.max(options.reachedHeight ?? 0, ...begun);
  const needsBlockAbove = neighbours?.above === true;
  const isBegun = neighbours !== undefined || dependencies.latestBlock() !== undefined;
  /** The first height of an empty index; `undefined` where blocks follow what is stored, and in history. */
  const first = isBegun ? undefined : indexed + 1;
  const pause = new Pause({ clock });
  const ways = { streamName: STREAM_NAME, stream: BLOCK_STREAM, call: BLOCK_CALL } as const;
  const chooser = new NodeChooser({ ...dependencies, ...ways, pauses: { minMs, maxMs } });
  const { troubles } = chooser;
  /** The block below a range is being sought. */
  let seeksBelow = neighbours?.below === true;
  /** `undefined` during the search, and when no node has it. */
  let below: BlockHead | undefined;
  /** As many nodes gave another block as gave that one. */
  let isBelowDoubted = false;
  /** Since when (monotonic milliseconds) the nodes are evenly split on that block; `undefined` while they are not. */
  let disputedBelow: { readonly height: number; readonly sinceMs: number } | undefined;
  const latestBlock = () => dependencies.latestBlock() ?? below;
  const linked = linkedBlocks(sporkRoots, { window, latestBlock });
  const resolver = forkResolver({
    ...dependencies,
    firstHeight: options.firstHeight ?? indexed + 1,
    hasSporks: sporkRoots.length > 0,
    latestBlock,
    isDoubted: () => isBelowDoubted && dependencies.latestBlock() === undefined,
    chooser,
    linked,
  });
  const tipCheck = tipChecker({
    ...dependencies,
    isLast: ({ height, id }) => linked.next === height + 1 && linked.at(height)?.block.id === id,
    onTrue: () => {
      troubles.clear();
      consumer.notify();
    },
    onDoubt: ({ node, method }, said) => troubles.note(node.name, method, 'invalid', said),
    onFalse: (lie) => takeBack(lie),
  });
  let handedOutTo = indexed;
  /** There may be room, or something else to read. */
  const moved = new WorkSignal();
  /** The first height of a node's stream, if above its lowest block: blocks below are requested one by one. */
  const streamFrom = new Map<string, number>();
  /** When the first NotFound since the last block arrived. */
  let notFoundSinceMs: number | undefined;
  /** Consecutive checks in which no node served the next height. */
  let unservedLooks = 0;

  /** No node serves the next height, and none has for a while. */
  const isUnserved = (): boolean => unservedLooks >= UNSERVED_LOOKS_BEFORE_REPORT;

  /** The highest height whose block may be read now; for a range also the child of its last block. */
  const toRead = (): number => {
    const { heights, stopHeight = Infinity } = window;
    const bound = window.upperBound();
    if (!needsBlockAbove || bound < stopHeight) return bound;
    return Math.min(bound + 1, window.latestIndexedHeight() + heights);
  };

  /** True for a height whose child may be unknown for long, or may not be requested. */
  const isTip = (height: number): boolean => {
    const { stopHeight = Infinity } = window;
    const tip = Math.max(window.finalizedHeight() ?? 0, reachedHeight);
    if (height >= tip - TIP_HEIGHTS || height > stopHeight) return true;
    return height === stopHeight && (!needsBlockAbove || isUnserved());
  };

  /** The highest height that `atIndex` has: whose block may be handed out now. */
  const head = (): number => {
    const last = linked.next - 1;
    const isKnown = (isTip(last) && !tipCheck.holds()) || linked.confirmedAt(last) !== undefined;
    if (isKnown || window.heights === 1) return Math.min(last, window.stopHeight ?? last);
    return Math.min(last, Math.max(handedOutTo, last - 1));
  };

  const append = ({ node, method, block }: Answer): void => {
    chooser.progressed();
    troubles.clear();
    notFoundSinceMs = undefined;
    const blockSource = { name: node.name, method };
    const isInHand = linked.append(block, blockSource);
    if (method === BLOCK_STREAM && isTip(block.height)) tipCheck.begin({ node, method, block });
    if (!isInHand) {
      logger.warn({ height: block.height, node: node.name }, 'a block was replaced');
      onReplaced(block, blockSource);
    }
    resolver.linkedAgain();
    consumer.notify();
  };

  /** The last block, which was not handed out, is not on the finalized chain: removes it. */
  const takeBack = (lie: Answer): void => {
    const { height } = lie.block;
    linked.takeBack(height);
    resolver.drop(lie, 'orphaned', height);
    moved.notify();
  };

  const hasRoom = (): boolean => {
    linked.prune();
    return linked.next <= toRead();
  };
  /** Resolves with how long there was none. */
  const whenRoom = async (signal: AbortSignal): Promise<number> => {
    signal.throwIfAborted();
    const sinceMs = clock.monotonic();
    while (!hasRoom()) await moved.wait(signal);
    return clock.monotonic() - sinceMs;
  };

  /**
   * For a range whose block below is not indexed: without it, a wrong parent of the range's first block would go
   * unnoticed. Asks the nodes until one gives it, or all deny having it. If only the nodes say which chain the range is
   * of, no block is taken that as many nodes contradict as give it.
   */
  const findBelow = async (height: number, signal: AbortSignal): Promise<void> => {
    const onFailure = (error: UpstreamError): void => troubles.failed(error);
    for (let absences = 0; absences < ROUNDS_BEFORE_ABSENT;) {
      const { answers } = await askForBlock(nodes, height, signal, { onFailure });
      const most = mostGiven(answers.map(({ block }) => block));
      // The block above the range, if it is indexed, refutes any other chain.
      if (most !== undefined && (most.isMost || !needsBlockAbove)) {
        below = most.block;
        isBelowDoubted = !most.isMost;
        break;
      }
      disputedBelow = most && (disputedBelow ?? { height, sinceMs: clock.monotonic() });
      for (const { node } of answers)
        troubles.note(node.name, BLOCK_CALL, 'invalid', `gives another block ${height} than others`);
      const [node] = nodes.forHeight(height, BLOCK_CALL);
      // Those of the range itself may have to complete their handshake.
      const isServed = nodes.forHeight(height + 1, BLOCK_CALL).length > 0;
      unservedLooks = isServed ? 0 : UNSERVED_LOOKS_BEFORE_REPORT;
      if (node !== undefined && troubles.all().length === 0)
        troubles.note(node.name, BLOCK_CALL, 'invalid', `gives no finalized block ${height}`);
      else if (isServed && troubles.all().every(({ kind }) => kind === 'denied')) absences += 1;
      await pause.sleep(ROUND_EVERY_MS, signal);
    }
    seeksBelow = false;
    disputedBelow = undefined;
    unservedLooks = 0;
    troubles.clear();
  };

  const readAll = async (signal: AbortSignal): Promise<void> => {
    if (seeksBelow) await findBelow(indexed, signal);
    for (;;) {
      await whenRoom(signal);
      await pause.sleep(await readOn(signal), signal);
    }
  };

  /** Reads from the best node until there is a reason to choose again. Resolves with the pause before that. */
  const readOn = async (signal: AbortSignal): Promise<number> => {
    const way = chooser.choose(nodes.forHeight(linked.next, BLOCK_STREAM), mayStream);
    unservedLooks = way === undefined ? unservedLooks + 1 : 0;
    if (way !== undefined) return readFrom(way, signal);
    if (unservedLooks === UNSERVED_LOOKS_BEFORE_REPORT) {
      logger.warn({ height: linked.next }, 'no access node serves the next height');
      consumer.notify();
    }
    return chooser.pauseMs();
  };

  /** Reads until there is a reason to leave the node. Resolves with the pause before the next reading. */
  const readFrom = async (way: Way, signal: AbortSignal): Promise<number> => {
    const { node } = way;
    const streams = chooser.isStream(way);
    const start = linked.next;
    const open = (ended: AbortSignal): AsyncIterable<ReceivedBlock> =>
      streams ? node.subscribeBlocks(start, { signal: ended }) : poll(node, start, ended);
    const blocks = readStream({ limitMs: chooser.patienceMs('stream'), open, signal, clock });
    let delivered = 0;
    let pausedMs = 0;
    const pace = streamPace();
    try {
      for (;;) {
        const height = linked.next;
        const read = await blocks.read();
        if (linked.next !== height) break;
        if (read === 'silent') return late(way, 'stale', `block ${height} did not come`);
        if (read.done === true) return ended(way, delivered);
        const { block, status } = read.value;
        const answer = { node, method: way.method, block };
        if (block.height !== height) return resolver.drop(answer, 'wrong_height', height);
        if (status === 'unknown') return resolver.drop(answer, 'orphaned', height);
        if (!linked.links(block)) {
          blocks.cancel();
          return await resolve(answer, signal);
        }
        delivered += 1;
        append(answer);
        // A single answer shows that the call works, and so does a stream that continues.
        if (delivered === (streams ? BLOCKS_BEFORE_CONFIRMED : 1)) chooser.works(way);

        pausedMs = hasRoom() ? 0 : await whenRoom(signal);
        if (pausedMs > 0) pace.rest();
        const due = Math.min(window.finalizedHeight() ?? 0, window.stopHeight ?? Infinity);
        const tooSlow = streams ? pace.fault(height + 1, due, clock.monotonic()) : undefined;
        if (tooSlow !== undefined) return late(way, 'lagging', tooSlow);
        // The nodes of the next spork may serve the next height, or the watermark may have passed what was read.
        const isServed = nodes.forHeight(height + 1).some(({ name }) => name === node.name);
        if (linked.next !== height + 1 || !isServed) break;
        // Its stream must make way.
        if (streams && !mayStream(node)) break;
        if (isOutdone(way)) break;
      }
      troubles.clear();
      return 0;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      return failed(way, error, pausedMs);
    } finally {
      blocks.cancel();
    }
  };

  /**
   * The blocks of a node without streams, in ascending order, several requested at once, but only those that may be read.
   * Ends when the node may be asked for a stream again. Expected errors: those of the node's calls.
   */
  const poll = async function* (node: AccessNode, start: number, signal: AbortSignal) {
    const timeoutMs = chooser.patienceMs('call');
    const asked: Promise<ReceivedBlock>[] = [];
    let nextToAsk = start;
    for (let height = start; !mayStream(node); height += 1) {
      const highest = height === first ? height : Math.max(height, toRead());
      while (asked.length < PARALLEL_READS && nextToAsk <= highest) {
        const answer = node.getBlockByHeight(nextToAsk++, { signal, timeoutMs });
        // A failure is handled when the answer is awaited, and ignored if it never is.
        answer.catch(() => undefined);
        asked.push(answer);
      }
      const next = asked.shift();
      if (next === undefined) return;
      yield await next;
    }
  };

  /** True when the node was set aside meanwhile, and another one was not. */
  const isOutdone = ({ node, method }: Way): boolean => {
    if (node.healthOf(method) !== 'set_aside') return false;
    const [best] = nodes.forHeight(linked.next, method);
    return best !== undefined && best.healthOf(method) !== 'set_aside';
  };

  /** True while the node should be asked for the next height by stream. */
  const mayStream = (node: AccessNode): boolean => {
    const { next } = linked;
    // A stream has its own connection, which may lead to another node. Only the connection over which this one identified
    // itself ties the first block to the recorded spork.
    const isWellAsked = node.supports(BLOCK_CALL) && node.healthOf(BLOCK_CALL) === 'healthy';
    if (next === first && isWellAsked) return false;
    return next >= (streamFrom.get(node.name) ?? 0) && chooser.mayStream(node);
  };

  const resolve = async (refused: Answer, signal: AbortSignal): Promise<number> => {
    const resolution = await resolver.resolve(refused, signal);
    if (typeof resolution === 'number') return resolution;
    nodes.succeeded(resolution.node, resolution.method);
    append(resolution);
    chooser.failed(refused, `sent block ${refused.block.height}, which was refused`);
    return 0;
  };

  const countReopened = (way: Way, reason: string): void => {
    if (chooser.isStream(way)) metrics.streamReopens.inc({ stream: STREAM_NAME, reason });
  };

  /** Nothing arrived in time, or too little. */
  const late = (way: Way, reason: 'stale' | 'lagging', said: string): number => {
    countReopened(way, reason);
    chooser.blame(way, 'unreachable', 'stale', `${way.method} at ${way.node.name}: ${said}`);
    if (reason === 'lagging') chooser.callInstead(way.node.name, POLLED_INSTEAD_MS);
    return 0;
  };

  const ended = (way: Way, delivered: number): number => {
    countReopened(way, 'ended');
    // The stream may have ended to make way for another one.
    if (!chooser.isStream(way) || delivered > 0 || !mayStream(way.node)) return 0;
    const said = `${way.method} at ${way.node.name}: ended the stream without block ${linked.next}`;
    chooser.blame(way, 'refused', 'failing', said);
    return chooser.pauseMs();
  };

  const failed = (way: Way, error: UpstreamError, pausedMs: number): number => {
    const { name } = way.node;
    const { kind, lowestHeight = 0, message } = error;
    const fault = faultOf(kind);
    countReopened(way, kind);
    if (fault !== undefined && pausedMs >= FORGIVEN_PAUSE_MS) return 0;
    const nowMs = clock.monotonic();
    if (kind === 'not_found' && nowMs - (notFoundSinceMs ??= nowMs) < QUICK_RETRIES_MS) {
      // This node will have the block in a moment; until then another may be the real obstacle.
      chooser.skip(way);
      return NOT_FOUND_RETRY_MS;
    }
    logger.debug({ node: name, height: linked.next, kind, error: message }, 'reading blocks failed');
    if (chooser.isStream(way)) {
      // The node's few streams may all be taken, even by us: blocks can be read without one.
      if (kind === 'rate_limited') chooser.callInstead(name, POLLED_INSTEAD_MS);
      if (kind === 'below_root' && lowestHeight > linked.next) {
        streamFrom.set(name, lowestHeight);
        return 0;
      }
    }
    if (kind === 'malformed') metrics.invalidBlocks.inc({ endpoint: name, reason: 'malformed' });
    chooser.erred(way, error, fault ?? (NO_FAULT.has(kind) ? undefined : 'failing'));
    return chooser.pauseMs();
  };

  return {
    /** Resolves when `signal` aborts. No expected errors. */
    run: (signal: AbortSignal): Promise<void> =>
      runTogether(signal, [readAll, (ended) => tipCheck.run(ended)]),
    /** The watermark or the head moved. */
    notify: (): void => {
      linked.prune();
      moved.notify();
    },
    /** A node answers again: ends the current pause. */
    wake: (): void => pause.wake(),
    /**
     * Why the lowest missing block at or below the head does not arrive; `undefined` while no cause is known.
     * `isUnserved`: no node serves the height.
     */
    heldUpBy: () => {
      const height = seeksBelow ? indexed : linked.next - (tipCheck.holds() ? 1 : 0);
      const known = troubles.all();
      if (height > toRead() || (known.length === 0 && !isUnserved())) return undefined;
      return { height, troubles: known, isUnserved: isUnserved() };
    },
    /** Asks every node that serves the height for its block. Expected errors: the signal's abort reason. */
    ask: async (height: number, signal: AbortSignal): Promise<readonly Answer[]> =>
      (await askForBlock(nodes, height, signal)).answers,
    /** The job of a height above the watermark once it is linked and confirmed by its child (see `head`). O(1). */
    atIndex: (height: number): BlockJob<FinalizedBlock> | undefined => {
      const job = height > head() ? undefined : linked.at(height);
      if (job !== undefined) handedOutTo = Math.max(handedOutTo, height);
      return job;
    },
    head,
    /** The linked block of a height above the watermark. */
    blockAt: (height: number): FinalizedBlock | undefined => linked.at(height)?.block,
    /** Set while no node that answers gives a block that fits what is stored, or what the spork table confirms. */
    chainTrouble: (): ChainTrouble | undefined => resolver.trouble(),
    /** Set while the nodes do not agree on the block below a range. */
    disputedBelow: () => disputedBelow,
  };
}

/** The block that most nodes give; in a tie, that of the best node. `isMost`: no other is given as often. */
function mostGiven(blocks: readonly BlockHead[]) {
  const votes = (block: BlockHead): number => blocks.filter(({ id }) => id === block.id).length;
  const most = Math.max(...blocks.map(votes));
  const [block, ...others] = blocks.filter((each) => votes(each) === most);
  return block && { block, isMost: others.every(({ id }) => id === block.id) };
}
