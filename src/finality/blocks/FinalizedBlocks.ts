import { faultOf, NodeTroubles, StreamReader, UpstreamError } from '../../access/index.js';
import type {
  AccessNode,
  AccessNodes,
  Giver,
  NodeFault,
  NodeTrouble,
  ReceivedBlock,
} from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import type { BlockJob, Jobs, Notifiable } from '../../jobqueue/index.js';
import { EdgeLog } from '../../observability/index.js';
import type { Logger } from '../../observability/index.js';
import { runTogether } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { BLOCK_CALL, BLOCK_STREAM, pollBlocks } from '../upstream/pollBlocks.js';
import { patienceMs } from '../upstream/patienceMs.js';
import { ForkResolver } from '../forks/ForkResolver.js';
import type { ChainTrouble, ParentMismatch } from '../forks/ForkResolver.js';
import { BlockPoll } from '../forks/BlockPoll.js';
import type { Answer, StoredBlockReader } from '../forks/BlockPoll.js';
import { LinkedBlocks } from '../forks/LinkedBlocks.js';
import type { RootParent, Watermark } from '../forks/LinkedBlocks.js';
import { Pause } from '../upstream/Pause.js';
import type { FinalityMetrics, LinkedHeights, ToldHead } from '../ports.js';
import { Refusals } from '../forks/Refusals.js';
import { TipCheck } from '../forks/TipCheck.js';
import { TwoWays } from '../upstream/TwoWays.js';
import type { Way } from '../upstream/TwoWays.js';

/** How often NotFound at the tip is asked again quickly: some nodes learn of a block a moment after the others. */
const MAX_QUICK_RETRIES = 25;
/** And for how long: slow refusals are no quick ones. */
const QUICK_RETRIES_MS = 5_000;

/** Looks for a node in vain before that is told: at the edge of a spork the next nodes have yet to say who they are. */
const UNSERVED_LOOKS_BEFORE_TOLD = 5;

/** Blocks in a row by which a stream shows that it does its work: one that breaks after each block does not. */
const BLOCKS_BEFORE_PRAISE = 3;

/** A stream that failed after it was left alone for so long was closed by a node that rightly gave up on us. */
const FORGIVEN_PAUSE_MS = 10_000;

export interface FinalizedBlocksOptions {
  /** K: no height above the watermark plus K is asked for. */
  readonly window: number;
  /** Nothing above it is asked for. */
  readonly stopHeight?: number | undefined;
  /** The lowest height of the store, for the `rewind` advice. Default: the one above the watermark at construction. */
  readonly firstHeight?: number | undefined;
  /**
   * A height that the chain is known to have reached, whatever the head is said to be: nodes that lag tell of a low one at
   * first, and what is far below the tip must not be taken for it (see `head`). Default: none.
   */
  readonly reachedHeight?: number | undefined;
  readonly sporkRoots?: readonly RootParent[];
  /** A stream that owes a block for so long is opened again. Default 5,000. */
  readonly silentAfterMs?: number;
  /** Delay before NotFound at the tip is asked again. Default 200. */
  readonly notFoundRetryMs?: number;
  /** Blocks asked for at once of a node without streams. Default 8. */
  readonly parallelReads?: number;
  /** Delay before a failed source is replaced. Defaults 250 and 10,000. */
  readonly backoffMinMs?: number;
  readonly backoffMaxMs?: number;
  /** How often the nodes are asked again while none confirms the latest stored block. Default 10,000. */
  readonly mismatchRetryMs?: number;
}

export interface FinalizedBlocksDependencies {
  readonly nodes: AccessNodes;
  readonly watermark: Watermark;
  /** Where linked blocks are kept. */
  readonly heights: LinkedHeights;
  /** The finalized head. */
  readonly head: () => number;
  /** What was last told of a head at this height (see `TipCheck`). Default: nothing. */
  readonly toldHead?: (height: number) => ToldHead | undefined;
  /** The highest height that may be worked on now. */
  readonly upperBound: () => number;
  /** Notified whenever a height became available: the consumer's wake-up. */
  readonly signal: Notifiable;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: FinalityMetrics;
  /** For the `rewind` advice; without it the advice is one height below the watermark. */
  readonly storedBlock?: StoredBlockReader;
  /** Another block was handed out at this height, by a node that lied; this is the right one. */
  readonly onReplaced: (block: FinalizedBlock, giver: Giver) => void;
}

/** So close below the head a block is handed out before its child is known. */
const TIP_HEIGHTS = 2;

/** A node that has no stream to spare for us is polled for so long before it is asked for one again. */
const POLLED_INSTEAD_MS = 60_000;

/** A node that was found to lie in its stream is asked block by block for so long. */
const FORGER_POLLED_MS = 600_000;

/** What stands between us and the lowest block that is not there, at or below the head. */
export interface HeldUpBlock {
  readonly height: number;
  readonly troubles: readonly NodeTrouble[];
  /** No node serves the height. */
  readonly isUnserved: boolean;
}

/** Why reading from a node ended. */
type Ending =
  | { readonly kind: 'moved' }
  | { readonly kind: 'ended'; readonly delivered: number }
  | { readonly kind: 'silent' }
  | { readonly kind: 'failed'; readonly error: UpstreamError; readonly pausedMs: number }
  | { readonly kind: 'orphaned' | 'wrong_height'; readonly block: FinalizedBlock }
  | { readonly kind: 'mismatch'; readonly block: FinalizedBlock };

/**
 * The finalized blocks as jobs: read ahead of the watermark, checked, linked parent by parent, and handed out only then.
 * It reads from one node at a time, by stream or (where the node has none) by parallel calls, and pauses by not pulling
 * when the window is full. `notify` tells it that the watermark or the head moved: wire both.
 *
 * Bounds: it asks for heights in [watermark + 1 .. min(watermark + K, head, stopHeight)] only and holds no others.
 */
export class FinalizedBlocks implements Jobs<BlockJob<FinalizedBlock>>, Notifiable {
  readonly #window: number;
  readonly #stopHeight: number;
  readonly #reachedHeight: number;
  readonly #silentAfterMs: number;
  readonly #notFoundRetryMs: number;
  readonly #parallelReads: number;
  readonly #deps: FinalizedBlocksDependencies;
  readonly #linked: LinkedBlocks;
  readonly #resolver: ForkResolver;
  readonly #poll: BlockPoll;
  readonly #tipCheck: TipCheck;
  readonly #pause: Pause;
  readonly #moved = new WorkSignal();
  readonly #ways: TwoWays;
  readonly #refusals: Refusals;
  /** What happened since the last block came. */
  readonly #troubles: NodeTroubles;
  /** Where a node's stream begins, if above its own lowest block: below that it is asked block by block. */
  readonly #streamFrom = new Map<string, number>();
  #quickRetries = 0;
  /** When the first of them was made. */
  #quickSinceMs = -Infinity;
  /** Reads in a row that ended because nothing came in time. */
  #silences = 0;
  /** Looks in a row at which no node served the next height. */
  #unservedLooks = 0;
  #handedOutTo: number;

  constructor(options: FinalizedBlocksOptions, dependencies: FinalizedBlocksDependencies) {
    if (!Number.isSafeInteger(options.window) || options.window < 1)
      throw new RangeError(`window must be a positive integer, not ${options.window}`);
    this.#window = options.window;
    this.#stopHeight = options.stopHeight ?? Number.MAX_SAFE_INTEGER;
    // A spork that is in the table has begun.
    const begun = (options.sporkRoots ?? []).map(({ rootHeight }) => rootHeight + TIP_HEIGHTS);
    this.#reachedHeight = Math.max(options.reachedHeight ?? 0, ...begun);
    this.#silentAfterMs = options.silentAfterMs ?? 5_000;
    this.#notFoundRetryMs = options.notFoundRetryMs ?? 200;
    this.#parallelReads = options.parallelReads ?? 8;
    this.#deps = dependencies;
    const { watermark, heights, nodes, clock, random, logger, storedBlock } = dependencies;
    this.#linked = new LinkedBlocks({ sporkRoots: options.sporkRoots ?? [] }, { watermark, heights });
    this.#pause = new Pause({ clock });
    this.#troubles = new NodeTroubles({ clock });
    this.#refusals = new Refusals({ nodes, troubles: this.#troubles, logger });
    const pauses = { minMs: options.backoffMinMs ?? 250, maxMs: options.backoffMaxMs ?? 10_000 };
    const edge = new EdgeLog({ clock, logger });
    this.#ways = new TwoWays(
      { stream: BLOCK_STREAM, call: BLOCK_CALL, pauses },
      {
        ...{ clock, random },
        onLeft: (node, reason) => edge.lost({ node, reason }, 'block stream left, single calls serve'),
        onBack: (node) => edge.back({ node }, 'block stream is back'),
      },
    );
    this.#resolver = new ForkResolver(
      {
        firstHeight: options.firstHeight ?? watermark.latestIndexedHeight() + 1,
        retryMs: options.mismatchRetryMs ?? 10_000,
        hasSporks: (options.sporkRoots ?? []).length > 0,
      },
      {
        ...{ nodes, linked: this.#linked, watermark, clock, logger, ways: this.#ways, storedBlock },
        ...{ refusals: this.#refusals, troubles: this.#troubles },
      },
    );
    this.#poll = new BlockPoll({ nodes });
    this.#tipCheck = new TipCheck({
      ...{ nodes, clock, poll: this.#poll },
      toldHead: dependencies.toldHead ?? (() => undefined),
      isLast: ({ height, id }) => this.#linked.next === height + 1 && this.blockAt(height)?.id === id,
      onTrue: () => dependencies.signal.notify(),
      onFalse: (lie) => this.#takeBack(lie),
    });
    this.#handedOutTo = watermark.latestIndexedHeight();
  }

  /** Resolves when `signal` aborts. No expected errors. */
  async run(signal: AbortSignal): Promise<void> {
    await runTogether(signal, [(ended) => this.#read(ended), (ended) => this.#tipCheck.run(ended)]);
  }

  /** The watermark or the head moved. */
  notify(): void {
    this.#linked.prune();
    this.#moved.notify();
  }

  /** A node answers again: whatever is waited for is asked for at once. */
  wake(): void {
    this.#pause.wake();
  }

  /** What holds up the lowest block that has not come; `undefined` while nothing is known to be wrong. */
  heldUpBy(): HeldUpBlock | undefined {
    const height = this.#linked.next;
    const doubtful = this.#tipCheck.trouble();
    if (doubtful !== undefined && this.#troubles.all().length === 0)
      return { height: doubtful.height, troubles: [doubtful.trouble], isUnserved: false };
    if (height > this.upperBound()) return undefined;
    const troubles = this.#troubles.all();
    const isUnserved = this.#unservedLooks >= UNSERVED_LOOKS_BEFORE_TOLD;
    return troubles.length > 0 || isUnserved ? { height, troubles, isUnserved } : undefined;
  }

  /** Asks every node that serves the height for its block. Expected errors: the signal's abort reason. */
  async ask(height: number, signal: AbortSignal): Promise<readonly Answer[]> {
    return (await this.#poll.ask(height, signal)).answers;
  }

  /** It is proven that a node forges what it gives by this call: a stream of it is not read on. */
  distrust({ name, method }: Giver): void {
    if (method === BLOCK_STREAM) this.#ways.callInstead(name, FORGER_POLLED_MS);
  }

  /** The job of a height above the watermark once it is linked and borne out by its child (see `head`). O(1). */
  atIndex(height: number): BlockJob<FinalizedBlock> | undefined {
    const job = height > this.head() ? undefined : this.#linked.at(height);
    if (job !== undefined && height > this.#handedOutTo) this.#handedOutTo = height;
    return job;
  }

  /**
   * The highest height that `atIndex` has. A block that links may still be a lie, one off the finalized chain, and shows
   * it only when its child names another parent: were it complete and durable by then, nothing but a `rewind` would mend
   * it. So the last linked block waits for its child, except near the tip, where no child may be known for long, and at the stop
   * height, where none may be asked for: there `TipCheck` has it borne out; and except with a window of one, and where the
   * spork table vouches for the block.
   */
  head(): number {
    const linked = this.#linked.next - 1;
    const isTip = this.#isTip(linked) && !this.#tipCheck.holds();
    if (isTip || this.#window === 1 || this.#linked.vouchedAt(linked) !== undefined) return linked;
    return Math.min(linked, Math.max(this.#handedOutTo, linked - 1));
  }

  /** No child may be known of it for long, or none may be asked for. */
  #isTip(height: number): boolean {
    const tip = Math.max(this.#deps.head(), this.#reachedHeight);
    return height >= tip - TIP_HEIGHTS || height >= this.#stopHeight;
  }

  /** The linked block of a height above the watermark. */
  blockAt(height: number): FinalizedBlock | undefined {
    return this.#linked.at(height)?.block;
  }

  /** The highest height that may be worked on now. */
  upperBound(): number {
    return this.#deps.upperBound();
  }

  /** Blocks held: at most K. */
  size(): number {
    return this.#linked.size;
  }

  /** Set while every node that answers gives a block that does not link to the latest stored one. */
  parentMismatch(): ParentMismatch | undefined {
    return this.#resolver.parentMismatch();
  }

  /** Set while every node that answers gives another last block of a spork than the spork table vouches for. */
  missingSporkEnd(): ChainTrouble | undefined {
    return this.#resolver.missingEnd();
  }

  async #read(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#room(signal);
      await this.#readOn(signal);
    }
  }

  async #room(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    while (!this.#hasRoom()) await this.#moved.wait(signal);
  }

  #hasRoom(): boolean {
    this.#linked.prune();
    return this.#linked.next <= this.upperBound();
  }

  /** Reads from the best node until there is a reason to choose again, and draws the consequences. */
  async #readOn(signal: AbortSignal): Promise<void> {
    const { nodes, logger, metrics } = this.#deps;
    const way = this.#ways.choose(nodes.forHeight(this.#linked.next, BLOCK_STREAM), (node) =>
      this.#mayStream(node),
    );
    if (way === undefined) {
      this.#unservedLooks += 1;
      if (this.#unservedLooks === UNSERVED_LOOKS_BEFORE_TOLD)
        logger.warn({ height: this.#linked.next }, 'no access node serves the next height');
      return this.#pause.sleep(this.#ways.pauseMs(), signal);
    }
    this.#unservedLooks = 0;
    const streams = this.#ways.isStream(way);
    const ending = await this.#readFrom(way, signal);
    const reopened = (reason: string): void => {
      if (streams) metrics.streamReopens.inc({ stream: 'blocks', reason });
    };
    switch (ending.kind) {
      case 'moved':
        this.#troubles.clear();
        return;
      case 'ended':
        reopened('ended');
        // It may have had to make way.
        if (!streams || ending.delivered > 0 || !this.#mayStream(way.node)) return;
        this.#hold(way, 'refused', 'failing', `ended the stream without block ${this.#linked.next}`);
        return this.#pause.sleep(this.#ways.pauseMs(), signal);
      case 'silent':
        reopened('stale');
        this.#silences += 1;
        this.#hold(way, 'unreachable', 'stale', `block ${this.#linked.next} did not come`);
        return;
      case 'failed':
        reopened(ending.error.kind);
        return this.#onFailure(way, ending.error, ending.pausedMs, signal);
      case 'orphaned':
      case 'wrong_height':
        metrics.invalidBlocks.inc({ reason: ending.kind });
        this.#refusals.refuse({ ...way, block: ending.block }, ending.kind, this.#linked.next);
        this.#ways.failed(way, `a block was refused: ${ending.kind}`);
        return this.#pause.sleep(this.#ways.pauseMs(), signal);
      case 'mismatch':
        metrics.invalidBlocks.inc({
          reason: this.#linked.mayStand(ending.block) ? 'parent_mismatch' : 'not_vouched',
        });
        return this.#resolve({ ...way, block: ending.block }, signal);
    }
  }

  async #readFrom(way: Way, signal: AbortSignal): Promise<Ending> {
    const { clock } = this.#deps;
    const { node, method } = way;
    const blocks = new StreamReader(
      { limitMs: patienceMs(this.#silences, this.#silentAfterMs) },
      { open: (ended) => this.#open(way, ended), signal, clock },
    );
    let delivered = 0;
    let pausedMs = 0;
    try {
      for (;;) {
        const height = this.#linked.next;
        this.#troubles.asked(node.name, method);
        const read = await blocks.read();
        if (this.#linked.next !== height) return { kind: 'moved' };
        if (read === 'silent') return { kind: 'silent' };
        if (read.done === true) return { kind: 'ended', delivered };
        const { block, status } = read.value;
        if (block.height !== height) return { kind: 'wrong_height', block };
        if (status === 'unknown') return { kind: 'orphaned', block };
        if (!this.#linked.links(block)) return { kind: 'mismatch', block };
        delivered += 1;
        this.#append({ node, method, block });
        this.#praise(way, delivered);

        pausedMs = 0;
        if (!this.#hasRoom()) {
          const pausedAtMs = clock.monotonic();
          await this.#room(signal);
          pausedMs = clock.monotonic() - pausedAtMs;
        }
        // The next height may belong to the next spork's nodes, or the watermark may have passed what was read.
        if (this.#linked.next !== height + 1 || !this.#serves(node, height + 1)) return { kind: 'moved' };
        // It was found out meanwhile, or has to make way.
        if (this.#ways.isStream(way) && !this.#mayStream(node)) return { kind: 'moved' };
        if (this.#isOutdone(way)) return { kind: 'moved' };
      }
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      return { kind: 'failed', error, pausedMs };
    } finally {
      blocks.cancel();
    }
  }

  #open(way: Way, signal: AbortSignal): AsyncIterable<ReceivedBlock> {
    const start = this.#linked.next;
    if (this.#ways.isStream(way)) return way.node.subscribeBlocks(start, { signal });
    return pollBlocks(way.node, start, {
      parallelReads: this.#parallelReads,
      timeoutMs: patienceMs(this.#silences),
      upperBound: () => this.upperBound(),
      mayStream: () => this.#mayStream(way.node),
      signal,
    });
  }

  #mayStream(node: AccessNode): boolean {
    const from = this.#streamFrom.get(node.name);
    return (from === undefined || this.#linked.next >= from) && this.#ways.mayStream(node);
  }

  #serves(node: AccessNode, height: number): boolean {
    return this.#deps.nodes.forHeight(height).some((other) => other.name === node.name);
  }

  /** It was penalized meanwhile, and another was not. */
  #isOutdone({ node, method }: Way): boolean {
    if (node.healthOf(method) !== 'set_aside') return false;
    const [best] = this.#deps.nodes.forHeight(this.#linked.next, method);
    return best !== undefined && best.healthOf(method) !== 'set_aside';
  }

  /** A single answer shows that the call does its work, and so does a stream that goes on. */
  #praise(way: Way, delivered: number): void {
    const streams = this.#ways.isStream(way);
    if (delivered !== (streams ? BLOCKS_BEFORE_PRAISE : 1)) return;
    this.#deps.nodes.succeeded(way.node, way.method);
    if (streams) this.#ways.streams(way);
  }

  #append({ node, method, block }: Answer): void {
    this.#ways.cameBy();
    this.#troubles.clear();
    this.#refusals.accepted();
    this.#quickRetries = 0;
    this.#silences = 0;
    const giver = { name: node.name, method };
    const isInHand = this.#linked.append(block, giver);
    if (method === BLOCK_STREAM && this.#isTip(block.height)) this.#tipCheck.begin({ node, method, block });
    if (!isInHand) {
      this.#deps.logger.warn({ height: block.height, node: node.name }, 'a block was replaced');
      this.#deps.onReplaced(block, giver);
    }
    this.#resolver.linkedAgain();
    this.#deps.signal.notify();
  }

  /** The last block, which was not handed out, is not on the finalized chain. Single calls say of each block whether it is. */
  #takeBack(lie: Answer): void {
    const { node, block } = lie;
    this.#deps.metrics.invalidBlocks.inc({ reason: 'orphaned' });
    this.#linked.takeBack(block.height);
    this.#refusals.refuse(lie, 'orphaned', block.height);
    this.#ways.failed(lie, 'a block was refused: orphaned');
    this.#ways.callInstead(node.name, FORGER_POLLED_MS);
    this.#moved.notify();
  }

  async #onFailure(way: Way, error: UpstreamError, pausedMs: number, signal: AbortSignal): Promise<void> {
    const { node } = way;
    const { kind, lowestHeight } = error;
    const fault = faultOf(kind);
    if (fault !== undefined && pausedMs >= FORGIVEN_PAUSE_MS) return;
    const nowMs = this.#deps.clock.monotonic();
    if (this.#quickRetries === 0) this.#quickSinceMs = nowMs;
    const isQuick = this.#quickRetries < MAX_QUICK_RETRIES && nowMs - this.#quickSinceMs < QUICK_RETRIES_MS;
    if (kind === 'not_found' && isQuick) {
      this.#quickRetries += 1;
      // It learns of the block in a moment: meanwhile another may be what it waits for.
      this.#troubles.answered(node.name);
      this.#ways.skip(way);
      return this.#pause.sleep(this.#notFoundRetryMs, signal);
    }
    this.#deps.logger.debug(
      { node: node.name, height: this.#linked.next, kind, error: error.message },
      'blocks could not be read',
    );
    if (this.#ways.isStream(way)) {
      // Its few streams may all be taken, and by us: blocks can be had without one.
      if (kind === 'rate_limited') this.#ways.callInstead(node.name, POLLED_INSTEAD_MS);
      if (kind === 'below_root' && (lowestHeight ?? 0) > this.#linked.next) {
        this.#streamFrom.set(node.name, lowestHeight ?? 0);
        return;
      }
    }
    if (kind === 'malformed') this.#deps.metrics.invalidBlocks.inc({ reason: 'malformed' });
    if (kind === 'deadline') this.#silences += 1;
    // A node too old for the stream is asked block by block.
    if (kind === 'unimplemented' && this.#ways.isStream(way)) this.#troubles.answered(node.name);
    else this.#troubles.failed(error);
    if (kind === 'rate_limited' || kind === 'unimplemented' || kind === 'below_root') this.#ways.avoid(way);
    else {
      this.#ways.failed(way, error.message);
      this.#deps.nodes.report(node, fault ?? 'failing', error.message, error.method);
    }
    await this.#pause.sleep(this.#ways.pauseMs(), signal);
  }

  /** Nothing came: held against the call, and named. */
  #hold(way: Way, kind: NodeTrouble['kind'], fault: Exclude<NodeFault, 'lied'>, what: string): void {
    const { node, method } = way;
    const said = `${method} at ${node.name}: ${what}`;
    this.#troubles.note(node.name, method, kind, said);
    this.#ways.failed(way, said);
    this.#deps.nodes.report(node, fault, said, method);
  }

  async #resolve(refused: Answer, signal: AbortSignal): Promise<void> {
    const resolution = await this.#resolver.resolve(refused, signal);
    if (resolution.kind === 'accept') {
      this.#deps.nodes.succeeded(resolution.answer.node, resolution.answer.method);
      this.#append(resolution.answer);
      this.#ways.failed(refused, `sent block ${refused.block.height}, which was refused`);
      return;
    }
    for (const way of resolution.avoid)
      this.#ways.failed(way, `sent block ${way.block.height}, which was refused`);
    await this.#pause.sleep(resolution.pauseMs, signal);
  }
}
