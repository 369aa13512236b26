import { faultOf, isExpectedEnd, StreamReader, UpstreamError } from '../../access/index.js';
import type {
  AccessNode,
  AccessNodes,
  NodeChooser,
  NodeFault,
  ReceivedBlock,
  TroubleKind,
  UpstreamErrorKind,
  Way,
} from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import type { Logger } from '../../observability/index.js';
import { Pause } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { serves } from '../forks/askForBlock.js';
import type { Answer } from '../forks/askForBlock.js';
import type { ForkResolver } from '../forks/ForkResolver.js';
import type { LinkedBlocks } from '../forks/LinkedBlocks.js';
import { BLOCK_STREAM } from '../ports.js';
import type { FinalityMetrics } from '../ports.js';

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
/** How often NotFound at the tip is retried quickly: some nodes learn of a block a moment after the others. */
const MAX_QUICK_RETRIES = 25;
/** The longest time for these retries, because refusals may be slow. */
const QUICK_RETRIES_MS = 5_000;

/** A stream that fails after we did not read it for this long is our fault: the node rightly closed it. */
const FORGIVEN_PAUSE_MS = 10_000;

/** How long a node without a free stream is polled before a stream is requested again. */
const POLLED_INSTEAD_MS = 60_000;

/** Errors of a node that count neither against it nor against the call: it is only asked after the others. */
const NO_FAULT: ReadonlySet<UpstreamErrorKind> = new Set([
  'rate_limited',
  'unimplemented',
  'below_root',
  'unproven',
]);

interface Parts {
  readonly nodes: AccessNodes;
  readonly linked: LinkedBlocks;
  readonly chooser: NodeChooser;
  readonly resolver: ForkResolver;
  /** The highest height that may be read now. */
  readonly upperBound: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: FinalityMetrics;
  /** Takes a block that links. */
  readonly onBlock: (answer: Answer) => void;
  /** No node serves the next height, and none has for a while. */
  readonly onUnserved: () => void;
}

/** Why reading from a node ended. */
type ReadEnding =
  | { readonly kind: 'moved' }
  | { readonly kind: 'ended'; readonly delivered: number }
  | { readonly kind: 'silent' }
  | { readonly kind: 'failed'; readonly error: UpstreamError; readonly pausedMs: number }
  /** `mismatch`: it does not link. */
  | { readonly kind: 'orphaned' | 'wrong_height' | 'mismatch'; readonly block: FinalizedBlock };

/**
 * Reads blocks in ascending order, from one node at a time, by stream or by parallel calls, and pauses by not pulling
 * when the window is full. Every block that links is handed over; for one that does not, `ForkResolver` decides who is
 * wrong. For any other reason to stop reading, it decides what counts against the node or its call, and how long to pause.
 */
export class BlockReader {
  readonly #parts: Parts;
  readonly #linked: LinkedBlocks;
  readonly #chooser: NodeChooser;
  readonly #pause: Pause;
  /** The first height of a node's stream, if above its lowest block: blocks below are requested one by one. */
  readonly #streamFrom = new Map<string, number>();
  #quickRetries = 0;
  /** When the first of these retries was made. */
  #quickSinceMs = -Infinity;
  readonly #moved = new WorkSignal();
  /** Consecutive checks in which no node served the next height. */
  #unservedLooks = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#linked = parts.linked;
    this.#chooser = parts.chooser;
    this.#pause = new Pause(parts);
  }

  /** No node serves the next height, and none has for a while. */
  get isUnserved(): boolean {
    return this.#unservedLooks >= UNSERVED_LOOKS_BEFORE_TOLD;
  }

  /** Call it when there may be room, or something else to read. */
  notify(): void {
    this.#moved.notify();
  }

  /** A node answers again: ends the current pause. */
  wake(): void {
    this.#pause.wake();
  }

  /** Expected errors: the signal's abort reason. */
  async run(signal: AbortSignal): Promise<void> {
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
    return this.#linked.next <= this.#parts.upperBound();
  }

  /** Reads from the best node until there is a reason to choose again, and handles that reason. */
  async #readOn(signal: AbortSignal): Promise<void> {
    const way = this.#chooser.choose(this.#parts.nodes.forHeight(this.#linked.next, BLOCK_STREAM), (node) =>
      this.#mayStream(node),
    );
    if (way === undefined) {
      this.#unserved();
      return this.#pause.sleep(this.#chooser.pauseMs(), signal);
    }
    this.#unservedLooks = 0;
    await this.#pause.sleep(await this.#ended(way, await this.#readFrom(way, signal), signal), signal);
  }

  #unserved(): void {
    this.#unservedLooks += 1;
    if (this.#unservedLooks !== UNSERVED_LOOKS_BEFORE_TOLD) return;
    this.#parts.logger.warn({ height: this.#linked.next }, 'no access node serves the next height');
    this.#parts.onUnserved();
  }

  async #readFrom(way: Way, signal: AbortSignal): Promise<ReadEnding> {
    const { clock } = this.#parts;
    const { node, method } = way;
    const limitMs = this.#chooser.patienceMs('stream');
    const blocks = new StreamReader({ limitMs, open: (ended) => this.#open(way, ended), signal, clock });
    let delivered = 0;
    let pausedMs = 0;
    try {
      for (;;) {
        const height = this.#linked.next;
        this.#chooser.asked(way);
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
        this.#confirm(way, delivered);

        pausedMs = 0;
        if (!this.#hasRoom()) {
          const pausedAtMs = clock.monotonic();
          await this.#room(signal);
          pausedMs = clock.monotonic() - pausedAtMs;
        }
        // The nodes of the next spork may serve the next height, or the watermark may have passed what was read.
        if (this.#linked.next !== height + 1 || !serves(this.#parts.nodes, node, height + 1))
          return { kind: 'moved' };
        // The node was found to lie meanwhile, or its stream must make way.
        if (this.#chooser.isStream(way) && !this.#mayStream(node)) return { kind: 'moved' };
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
    if (this.#chooser.isStream(way)) return way.node.subscribeBlocks(start, { signal });
    return pollBlocks(way.node, start, {
      timeoutMs: this.#chooser.patienceMs('call'),
      upperBound: () => this.#parts.upperBound(),
      mayStream: () => this.#mayStream(way.node),
      signal,
    });
  }

  /** True when the node was set aside meanwhile, and there is one that was not. */
  #isOutdone({ node, method }: Way): boolean {
    if (node.healthOf(method) !== 'set_aside') return false;
    const [best] = this.#parts.nodes.forHeight(this.#linked.next, method);
    return best !== undefined && best.healthOf(method) !== 'set_aside';
  }

  /** A single answer shows that the call works, and so does a stream that continues. */
  #confirm(way: Way, delivered: number): void {
    const streams = this.#chooser.isStream(way);
    if (delivered !== (streams ? BLOCKS_BEFORE_CONFIRMED : 1)) return;
    this.#parts.nodes.succeeded(way.node, way.method);
    if (streams) this.#chooser.streams(way);
  }

  #append(answer: Answer): void {
    this.#chooser.cameBy();
    this.#chooser.troubles.clear();
    this.#quickRetries = 0;
    this.#parts.onBlock(answer);
  }

  /** True while the node should be asked for the next height by stream. */
  #mayStream(node: AccessNode): boolean {
    const from = this.#streamFrom.get(node.name);
    return (from === undefined || this.#linked.next >= from) && this.#chooser.mayStream(node);
  }

  /** Returns the pause before the next reading. */
  async #resolve(refused: Answer, signal: AbortSignal): Promise<number> {
    this.#parts.metrics.invalidBlocks.inc({
      endpoint: refused.node.name,
      reason: this.#linked.isAcceptable(refused.block) ? 'parent_mismatch' : 'not_vouched',
    });
    const resolution = await this.#parts.resolver.resolve(refused, signal);
    if (resolution.kind === 'accept') {
      this.#parts.nodes.succeeded(resolution.answer.node, resolution.answer.method);
      this.#append(resolution.answer);
      this.#chooser.failed(refused, `sent block ${refused.block.height}, which was refused`);
      return 0;
    }
    for (const way of resolution.avoid)
      this.#chooser.failed(way, `sent block ${way.block.height}, which was refused`);
    return resolution.pauseMs;
  }

  /** Returns the pause before the next reading. */
  async #ended(way: Way, ending: ReadEnding, signal: AbortSignal): Promise<number> {
    const streams = this.#chooser.isStream(way);
    switch (ending.kind) {
      case 'moved':
        this.#chooser.troubles.clear();
        return 0;
      case 'ended':
        if (streams) this.#countReopened('ended');
        // The stream may have ended to make way for another one.
        if (!streams || ending.delivered > 0 || !this.#mayStream(way.node)) return 0;
        this.#blame(way, 'refused', 'failing', `ended the stream without block ${this.#linked.next}`);
        return this.#chooser.pauseMs();
      case 'silent':
        if (streams) this.#countReopened('stale');
        this.#blame(way, 'unreachable', 'stale', `block ${this.#linked.next} did not come`);
        return 0;
      case 'failed':
        if (streams) this.#countReopened(ending.error.kind);
        return this.#failed(way, ending.error, ending.pausedMs);
      case 'mismatch':
        return this.#resolve({ ...way, block: ending.block }, signal);
      case 'orphaned':
      case 'wrong_height':
        this.#parts.resolver.drop({ ...way, block: ending.block }, ending.kind, this.#linked.next);
        return this.#chooser.pauseMs();
    }
  }

  #countReopened(reason: string): void {
    this.#parts.metrics.streamReopens.inc({ stream: 'blocks', reason });
  }

  #failed(way: Way, error: UpstreamError, pausedMs: number): number {
    const { node } = way;
    const { kind, lowestHeight } = error;
    const fault = faultOf(kind);
    if (fault !== undefined && pausedMs >= FORGIVEN_PAUSE_MS) return 0;
    if (kind === 'not_found' && this.#retriesQuickly()) {
      // This node will have the block in a moment; until then another may be the real obstacle.
      this.#chooser.troubles.answered(node.name);
      this.#chooser.skip(way);
      return NOT_FOUND_RETRY_MS;
    }
    this.#parts.logger.debug(
      { node: node.name, height: this.#linked.next, kind, error: error.message },
      'reading blocks failed',
    );
    if (this.#chooser.isStream(way)) {
      // The node's few streams may all be taken, even by us: blocks can be read without one.
      if (kind === 'rate_limited') this.#chooser.callInstead(node.name, POLLED_INSTEAD_MS);
      if (kind === 'below_root' && (lowestHeight ?? 0) > this.#linked.next) {
        this.#streamFrom.set(node.name, lowestHeight ?? 0);
        return 0;
      }
    }
    if (kind === 'malformed')
      this.#parts.metrics.invalidBlocks.inc({ endpoint: node.name, reason: 'malformed' });
    this.#chooser.erred(way, error, fault ?? (NO_FAULT.has(kind) ? undefined : 'failing'));
    return this.#chooser.pauseMs();
  }

  /** True for the first few refusals since a block arrived. */
  #retriesQuickly(): boolean {
    const nowMs = this.#parts.clock.monotonic();
    if (this.#quickRetries === 0) this.#quickSinceMs = nowMs;
    if (this.#quickRetries >= MAX_QUICK_RETRIES || nowMs - this.#quickSinceMs >= QUICK_RETRIES_MS)
      return false;
    this.#quickRetries += 1;
    return true;
  }

  /** Nothing arrived. */
  #blame(way: Way, kind: TroubleKind, fault: NodeFault, what: string): void {
    this.#chooser.blame(way, kind, fault, `${way.method} at ${way.node.name}: ${what}`);
  }
}

/**
 * The blocks of a node without streams, in ascending order, several requested at once but none above `upperBound()`.
 * Ends when the node may have a stream for us again. Expected errors: those of the node's calls.
 */
async function* pollBlocks(
  node: AccessNode,
  startHeight: number,
  options: {
    /** Deadline of one call. */
    readonly timeoutMs: number;
    readonly upperBound: () => number;
    /** True once the node may be asked for a stream. */
    readonly mayStream: () => boolean;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<ReceivedBlock, void> {
  const asked: Promise<ReceivedBlock>[] = [];
  let nextToAsk = startHeight;
  try {
    for (let height = startHeight; ; height += 1) {
      if (options.mayStream()) return;
      const highest = Math.max(height, options.upperBound());
      while (asked.length < PARALLEL_READS && nextToAsk <= highest) {
        const answer = node.getBlockByHeight(nextToAsk, {
          signal: options.signal,
          timeoutMs: options.timeoutMs,
        });
        // Its failure is handled when it is awaited, or below.
        answer.catch(() => undefined);
        asked.push(answer);
        nextToAsk += 1;
      }
      const next = asked.shift();
      if (next === undefined) return;
      yield await next;
    }
  } finally {
    for (const left of asked)
      left.catch((error: unknown) => {
        if (!isExpectedEnd(error)) throw error;
      });
  }
}
