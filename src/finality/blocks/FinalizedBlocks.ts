import { faultOf, NodeChooser, readStream, streamPace, UpstreamError } from '../../access/index.js';
import type { AccessNode, ReceivedBlock, UpstreamErrorKind, Way } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal, type BlockJob, type Jobs, type Notifiable } from '../../jobqueue/index.js';
import { Pause, runTogether } from '../../runtime/index.js';
import { askForBlock, type Answer } from '../forks/askForBlock.js';
import { ForkResolver, type ChainTrouble } from '../forks/ForkResolver.js';
import { LinkedBlocks, type RootParent } from '../forks/LinkedBlocks.js';
import { TipCheck } from '../forks/TipCheck.js';
import { BLOCK_CALL, BLOCK_STREAM, type ChainDependencies } from '../ports.js';
import { BlockBelow } from './BlockBelow.js';

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

/** Of its stream, in metrics and logs. */
const STREAM_NAME = 'blocks';

/** Within this distance of the head a block is handed out before its child is known. */
const TIP_HEIGHTS = 2;

/** How long a node that lied in its stream is asked for single blocks instead. */
const FORGER_POLLED_MS = 600_000;

/**
 * Searches for a node that fail before this is reported: at the edge of a spork the next nodes have yet to complete
 * their handshake.
 */
const UNSERVED_LOOKS_BEFORE_TOLD = 5;

/** Blocks requested at once from a node without streams. */
const PARALLEL_READS = 8;
/** Consecutive blocks after which a stream counts as working: one that breaks after each block does not. */
const BLOCKS_BEFORE_CONFIRMED = 3;

/** Delay before NotFound at the tip is retried. */
const NOT_FOUND_RETRY_MS = 200;
/** For how long it is retried that quickly: some nodes learn of a block a moment after the others. */
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
 * It reads in ascending order, from one node at a time, by stream or by parallel calls, and pauses by not pulling when the
 * window is full. For a block that does not link, `ForkResolver` decides who is wrong.
 *
 * A block that links may still be off the finalized chain, which shows only when its child names another parent. If it
 * were complete and durable by then, only a `rewind` would help. So the last linked block waits for its child.
 * Exceptions: near the tip, where no child may be known for long, and at the stop height, where no child may be requested
 * or no node has it (there `TipCheck` confirms the block); a window of one; a block that the spork table confirms.
 *
 * Bounds: it requests heights in [watermark + 1 .. min(watermark + K, head, stopHeight)] only, and holds no others; for a
 * range also the two neighbours (`neighbours`), the upper one within the window.
 */
export class FinalizedBlocks implements Jobs<BlockJob<FinalizedBlock>>, Notifiable {
  readonly #deps: ChainDependencies;
  readonly #linked: LinkedBlocks;
  readonly #resolver: ForkResolver;
  readonly #tipCheck: TipCheck;
  readonly #below: BlockBelow | undefined;
  readonly #reachedHeight: number;
  readonly #needsBlockAbove: boolean;
  /** The first height of an empty index; `undefined` where blocks follow what is stored, and in history. */
  readonly #first: number | undefined;
  #handedOutTo: number;
  readonly #chooser: NodeChooser;
  readonly #pause: Pause;
  /** There may be room, or something else to read. */
  readonly #moved = new WorkSignal();
  /** The first height of a node's stream, if above its lowest block: blocks below are requested one by one. */
  readonly #streamFrom = new Map<string, number>();
  /** When the first NotFound came since the last block. */
  #notFoundSinceMs: number | undefined;
  /** Consecutive checks in which no node served the next height. */
  #unservedLooks = 0;

  constructor(options: FinalizedBlocksOptions, dependencies: ChainDependencies) {
    const { neighbours, sporkRoots = [] } = options;
    const { window, nodes, clock } = dependencies;
    // A spork in the table has started.
    const begun = sporkRoots.map(({ rootHeight }) => rootHeight + TIP_HEIGHTS);
    this.#reachedHeight = Math.max(options.reachedHeight ?? 0, ...begun);
    this.#needsBlockAbove = neighbours?.above === true;
    this.#deps = dependencies;
    const height = window.latestIndexedHeight();
    this.#handedOutTo = height;
    const isBegun = neighbours !== undefined || dependencies.latestBlock() !== undefined;
    this.#first = isBegun ? undefined : height + 1;
    const latestBlock = () => dependencies.latestBlock() ?? this.#below?.block;
    this.#linked = new LinkedBlocks(sporkRoots, { window, latestBlock });
    this.#pause = new Pause({ clock });
    const pauses = { minMs: options.backoffMinMs, maxMs: options.backoffMaxMs };
    const ways = { streamName: STREAM_NAME, stream: BLOCK_STREAM, call: BLOCK_CALL, pauses } as const;
    this.#chooser = new NodeChooser({ ...dependencies, ...ways });
    this.#resolver = new ForkResolver({
      ...dependencies,
      firstHeight: options.firstHeight ?? height + 1,
      hasSporks: sporkRoots.length > 0,
      latestBlock,
      isDoubted: () => this.#below?.isDoubted === true && dependencies.latestBlock() === undefined,
      chooser: this.#chooser,
      linked: this.#linked,
    });
    if (neighbours?.below === true) {
      const { troubles } = this.#chooser;
      const isEndKnown = !neighbours.above;
      this.#below = new BlockBelow({ height, isEndKnown, nodes, troubles, pause: this.#pause, clock });
    }
    this.#tipCheck = new TipCheck({
      ...dependencies,
      isLast: ({ height, id }) => this.#linked.next === height + 1 && this.blockAt(height)?.id === id,
      onTrue: () => dependencies.signal.notify(),
      onFalse: (lie) => this.#takeBack(lie),
    });
  }

  /** Resolves when `signal` aborts. No expected errors. */
  async run(signal: AbortSignal): Promise<void> {
    const read = async (ended: AbortSignal): Promise<void> => {
      await this.#below?.find(ended);
      for (;;) {
        await this.#room(ended);
        await this.#readOn(ended);
      }
    };
    await runTogether(signal, [read, (ended) => this.#tipCheck.run(ended)]);
  }

  /** The watermark or the head moved. */
  notify(): void {
    this.#linked.prune();
    this.#moved.notify();
  }

  /** A node answers again: ends the current pause. */
  wake(): void {
    this.#pause.wake();
  }

  /**
   * Why the lowest missing block at or below the head does not arrive; `undefined` while nothing is known to be wrong.
   * `isUnserved`: no node serves the height.
   */
  heldUpBy() {
    const height = this.#below?.isSought === true ? this.#below.height : this.#linked.next;
    const doubtful = this.#tipCheck.trouble();
    const troubles = this.#chooser.troubles.all();
    if (doubtful !== undefined && troubles.length === 0)
      return { height: doubtful.height, troubles: [doubtful.trouble], isUnserved: false };
    if (height > this.#toRead()) return undefined;
    const isUnserved = this.#isUnserved || this.#below?.isUnserved === true;
    return troubles.length > 0 || isUnserved ? { height, troubles, isUnserved } : undefined;
  }

  /** Asks every node that serves the height for its block. Expected errors: the signal's abort reason. */
  async ask(height: number, signal: AbortSignal): Promise<readonly Answer[]> {
    return (await askForBlock(this.#deps.nodes, height, signal)).answers;
  }

  /** The job of a height above the watermark once it is linked and confirmed by its child (see `head`). O(1). */
  atIndex(height: number): BlockJob<FinalizedBlock> | undefined {
    const job = height > this.head() ? undefined : this.#linked.at(height);
    if (job !== undefined) this.#handedOutTo = Math.max(this.#handedOutTo, height);
    return job;
  }

  /** The highest height that `atIndex` has: whose block may be handed out now. */
  head(): number {
    const linked = this.#linked.next - 1;
    const isTip = this.#isTip(linked) && !this.#tipCheck.holds();
    if (isTip || this.#deps.window.heights === 1 || this.#linked.confirmedAt(linked) !== undefined)
      return Math.min(linked, this.#deps.window.stopHeight ?? linked);
    return Math.min(linked, Math.max(this.#handedOutTo, linked - 1));
  }

  /** The linked block of a height above the watermark. */
  blockAt(height: number): FinalizedBlock | undefined {
    return this.#linked.at(height)?.block;
  }

  /** Set while no node that answers gives a block that fits what is stored, or what the spork table confirms. */
  chainTrouble(): ChainTrouble | undefined {
    return this.#resolver.trouble();
  }

  /** Set while the nodes do not agree on the block below a range. */
  disputedBelow(): { readonly height: number; readonly sinceMs: number } | undefined {
    return this.#below?.disputed;
  }

  /** The highest height whose block may be read now; for a range also the child of its last block. */
  #toRead(): number {
    const { heights, stopHeight = Infinity } = this.#deps.window;
    const bound = this.#deps.window.upperBound();
    if (!this.#needsBlockAbove || bound < stopHeight) return bound;
    return Math.min(bound + 1, this.#deps.window.latestIndexedHeight() + heights);
  }

  /** True for a height whose child may be unknown for long, or may not be requested. */
  #isTip(height: number): boolean {
    const { stopHeight = Infinity } = this.#deps.window;
    const tip = Math.max(this.#deps.window.finalizedHeight() ?? 0, this.#reachedHeight);
    if (height >= tip - TIP_HEIGHTS || height > stopHeight) return true;
    return height === stopHeight && (!this.#needsBlockAbove || this.#isUnserved);
  }

  #append({ node, method, block }: Answer): void {
    this.#chooser.cameBy();
    this.#chooser.troubles.clear();
    this.#notFoundSinceMs = undefined;
    const blockSource = { name: node.name, method };
    const isInHand = this.#linked.append(block, blockSource);
    if (method === BLOCK_STREAM && this.#isTip(block.height)) this.#tipCheck.begin({ node, method, block });
    if (!isInHand) {
      this.#deps.logger.warn({ height: block.height, node: node.name }, 'a block was replaced');
      this.#deps.onReplaced(block, blockSource);
    }
    this.#resolver.linkedAgain();
    this.#deps.signal.notify();
  }

  /**
   * The last block, which was not handed out, is not on the finalized chain: removes it. From now on single calls are
   * used for this node, as they report the status of each block.
   */
  #takeBack(lie: Answer): void {
    const { node, block } = lie;
    this.#linked.takeBack(block.height);
    this.#resolver.drop(lie, 'orphaned', block.height);
    this.#chooser.callInstead(node.name, FORGER_POLLED_MS);
    this.#moved.notify();
  }

  async #room(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    while (!this.#hasRoom()) await this.#moved.wait(signal);
  }

  #hasRoom(): boolean {
    this.#linked.prune();
    return this.#linked.next <= this.#toRead();
  }

  /** Reads from the best node until there is a reason to choose again, and handles that reason. */
  async #readOn(signal: AbortSignal): Promise<void> {
    const nodes = this.#deps.nodes.forHeight(this.#linked.next, BLOCK_STREAM);
    const way = this.#chooser.choose(nodes, (node) => this.#mayStream(node));
    if (way === undefined) {
      this.#unservedLooks += 1;
      if (this.#unservedLooks === UNSERVED_LOOKS_BEFORE_TOLD) {
        this.#deps.logger.warn({ height: this.#linked.next }, 'no access node serves the next height');
        this.#deps.signal.notify();
      }
      return this.#pause.sleep(this.#chooser.pauseMs(), signal);
    }
    this.#unservedLooks = 0;
    await this.#pause.sleep(await this.#readFrom(way, signal), signal);
  }

  /** No node serves the next height, and none has for a while. */
  get #isUnserved(): boolean {
    return this.#unservedLooks >= UNSERVED_LOOKS_BEFORE_TOLD;
  }

  /** Reads until the node is to be left. Resolves with the pause before the next reading. */
  async #readFrom(way: Way, signal: AbortSignal): Promise<number> {
    const { clock } = this.#deps;
    const { node } = way;
    const streams = this.#chooser.isStream(way);
    const start = this.#linked.next;
    const open = (ended: AbortSignal): AsyncIterable<ReceivedBlock> =>
      streams ? node.subscribeBlocks(start, { signal: ended }) : this.#poll(node, start, ended);
    const blocks = readStream({ limitMs: this.#chooser.patienceMs('stream'), open, signal, clock });
    let delivered = 0;
    let pausedMs = 0;
    const pace = streamPace();
    try {
      for (;;) {
        const height = this.#linked.next;
        this.#chooser.asked(way);
        const read = await blocks.read();
        if (this.#linked.next !== height) break;
        if (read === 'silent') return this.#late(way, 'stale', `block ${height} did not come`);
        if (read.done === true) return this.#ended(way, delivered);
        const { block, status } = read.value;
        const answer = { node, method: way.method, block };
        if (block.height !== height) return this.#drop(answer, 'wrong_height');
        if (status === 'unknown') return this.#drop(answer, 'orphaned');
        if (!this.#linked.links(block)) {
          blocks.cancel();
          return await this.#resolve(answer, signal);
        }
        delivered += 1;
        this.#append(answer);
        // A single answer shows that the call works, and so does a stream that continues.
        if (delivered === (streams ? BLOCKS_BEFORE_CONFIRMED : 1)) this.#chooser.works(way);

        pausedMs = 0;
        if (!this.#hasRoom()) {
          const pausedAtMs = clock.monotonic();
          await this.#room(signal);
          pausedMs = clock.monotonic() - pausedAtMs;
          pace.rest();
        }
        const { window } = this.#deps;
        const due = Math.min(window.finalizedHeight() ?? 0, window.stopHeight ?? Infinity);
        const tooSlow = streams ? pace.fault(height + 1, due, clock.monotonic()) : undefined;
        if (tooSlow !== undefined) return this.#late(way, 'lagging', tooSlow);
        // The nodes of the next spork may serve the next height, or the watermark may have passed what was read.
        const isServed = this.#deps.nodes.forHeight(height + 1).some(({ name }) => name === node.name);
        if (this.#linked.next !== height + 1 || !isServed) break;
        // The node was found to lie meanwhile, or its stream must make way.
        if (streams && !this.#mayStream(node)) break;
        if (this.#isOutdone(way)) break;
      }
      this.#chooser.troubles.clear();
      return 0;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      return this.#failed(way, error, pausedMs);
    } finally {
      blocks.cancel();
    }
  }

  /**
   * The blocks of a node without streams, in ascending order, several requested at once but none that may not be read yet.
   * Ends when the node may be asked for a stream again. Expected errors: those of the node's calls.
   */
  async *#poll(node: AccessNode, start: number, signal: AbortSignal): AsyncGenerator<ReceivedBlock, void> {
    const timeoutMs = this.#chooser.patienceMs('call');
    const asked: Promise<ReceivedBlock>[] = [];
    let nextToAsk = start;
    for (let height = start; !this.#mayStream(node); height += 1) {
      const highest = height === this.#first ? height : Math.max(height, this.#toRead());
      while (asked.length < PARALLEL_READS && nextToAsk <= highest) {
        const answer = node.getBlockByHeight(nextToAsk++, { signal, timeoutMs });
        // Its failure is handled when it is awaited; of those that are left, nobody hears.
        answer.catch(() => undefined);
        asked.push(answer);
      }
      const next = asked.shift();
      if (next === undefined) return;
      yield await next;
    }
  }

  /** True when the node was set aside meanwhile, and there is one that was not. */
  #isOutdone({ node, method }: Way): boolean {
    if (node.healthOf(method) !== 'set_aside') return false;
    const [best] = this.#deps.nodes.forHeight(this.#linked.next, method);
    return best !== undefined && best.healthOf(method) !== 'set_aside';
  }

  /** True while the node should be asked for the next height by stream. */
  #mayStream(node: AccessNode): boolean {
    const { next } = this.#linked;
    // A stream has a connection of its own, which may lead to another node. Nothing but the connection over which this one has
    // identified itself ties the first block to the spork that is recorded.
    const isWellAsked = node.supports(BLOCK_CALL) && node.healthOf(BLOCK_CALL) === 'healthy';
    if (next === this.#first && isWellAsked) return false;
    return next >= (this.#streamFrom.get(node.name) ?? 0) && this.#chooser.mayStream(node);
  }

  async #resolve(refused: Answer, signal: AbortSignal): Promise<number> {
    const resolution = await this.#resolver.resolve(refused, signal);
    if (typeof resolution === 'number') return resolution;
    this.#deps.nodes.succeeded(resolution.node, resolution.method);
    this.#append(resolution);
    this.#chooser.failed(refused, `sent block ${refused.block.height}, which was refused`);
    return 0;
  }

  #drop(answer: Answer, reason: 'orphaned' | 'wrong_height'): number {
    this.#resolver.drop(answer, reason, this.#linked.next);
    return this.#chooser.pauseMs();
  }

  /** Nothing came in time, or too little. */
  #late(way: Way, reason: 'stale' | 'lagging', said: string): number {
    this.#countReopened(way, reason);
    this.#chooser.blame(way, 'unreachable', 'stale', `${way.method} at ${way.node.name}: ${said}`);
    if (reason === 'lagging') this.#chooser.callInstead(way.node.name, POLLED_INSTEAD_MS);
    return 0;
  }

  #ended(way: Way, delivered: number): number {
    this.#countReopened(way, 'ended');
    // The stream may have ended to make way for another one.
    if (!this.#chooser.isStream(way) || delivered > 0 || !this.#mayStream(way.node)) return 0;
    const said = `${way.method} at ${way.node.name}: ended the stream without block ${this.#linked.next}`;
    this.#chooser.blame(way, 'refused', 'failing', said);
    return this.#chooser.pauseMs();
  }

  #countReopened(way: Way, reason: string): void {
    if (this.#chooser.isStream(way)) this.#deps.metrics.streamReopens.inc({ stream: STREAM_NAME, reason });
  }

  #failed(way: Way, error: UpstreamError, pausedMs: number): number {
    const { node } = way;
    const { kind, lowestHeight = 0 } = error;
    const fault = faultOf(kind);
    this.#countReopened(way, kind);
    if (fault !== undefined && pausedMs >= FORGIVEN_PAUSE_MS) return 0;
    const nowMs = this.#deps.clock.monotonic();
    if (kind === 'not_found' && nowMs - (this.#notFoundSinceMs ??= nowMs) < QUICK_RETRIES_MS) {
      // This node will have the block in a moment; until then another may be the real obstacle.
      this.#chooser.troubles.answered(node.name);
      this.#chooser.skip(way);
      return NOT_FOUND_RETRY_MS;
    }
    this.#deps.logger.debug(
      { node: node.name, height: this.#linked.next, kind, error: error.message },
      'reading blocks failed',
    );
    if (this.#chooser.isStream(way)) {
      // The node's few streams may all be taken, even by us: blocks can be read without one.
      if (kind === 'rate_limited') this.#chooser.callInstead(node.name, POLLED_INSTEAD_MS);
      if (kind === 'below_root' && lowestHeight > this.#linked.next) {
        this.#streamFrom.set(node.name, lowestHeight);
        return 0;
      }
    }
    if (kind === 'malformed')
      this.#deps.metrics.invalidBlocks.inc({ endpoint: node.name, reason: 'malformed' });
    this.#chooser.erred(way, error, fault ?? (NO_FAULT.has(kind) ? undefined : 'failing'));
    return this.#chooser.pauseMs();
  }
}
