import { faultOf, StreamReader, UpstreamError } from '../../access/index.js';
import type {
  AccessNode,
  AccessNodes,
  NodeFault,
  NodeTrouble,
  NodeTroubles,
  ReceivedBlock,
} from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { Answer } from '../forks/BlockPoll.js';
import type { ForkResolver } from '../forks/ForkResolver.js';
import type { LinkedBlocks } from '../forks/LinkedBlocks.js';
import type { Refusals } from '../forks/Refusals.js';
import type { FinalityMetrics } from '../ports.js';
import { patienceMs } from '../upstream/patienceMs.js';
import { Pause } from '../upstream/Pause.js';
import { BLOCK_STREAM, pollBlocks } from '../upstream/pollBlocks.js';
import type { TwoWays, Way } from '../upstream/TwoWays.js';

/** How often NotFound at the tip is retried quickly: some nodes learn of a block a moment after the others. */
const MAX_QUICK_RETRIES = 25;
/** And for how long in all, because refusals may be slow. */
const QUICK_RETRIES_MS = 5_000;

/**
 * Failed searches for a node before they are reported: at the edge of a spork the next nodes have yet to complete their
 * handshake.
 */
const UNSERVED_LOOKS_BEFORE_TOLD = 5;

/** Blocks in a row before a stream counts as working: one that breaks after each block does not. */
const BLOCKS_BEFORE_PRAISE = 3;

/** A stream that fails after we left it unread for so long is our fault: the node rightly closed it. */
const FORGIVEN_PAUSE_MS = 10_000;

/** How long a node without a free stream is polled before a stream is requested again. */
const POLLED_INSTEAD_MS = 60_000;

export interface BlockReaderOptions {
  /** A stream that owes a block for this long is reopened. */
  readonly silentAfterMs: number;
  /** Delay before NotFound at the tip is retried. */
  readonly notFoundRetryMs: number;
  /** Blocks requested at once from a node without streams. */
  readonly parallelReads: number;
}

export interface BlockReaderDependencies {
  readonly nodes: AccessNodes;
  readonly linked: LinkedBlocks;
  readonly ways: TwoWays;
  readonly resolver: ForkResolver;
  readonly refusals: Refusals;
  /** What went wrong since the last block arrived. */
  readonly troubles: NodeTroubles;
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
type Ending =
  | { readonly kind: 'moved' }
  | { readonly kind: 'ended'; readonly delivered: number }
  | { readonly kind: 'silent' }
  | { readonly kind: 'failed'; readonly error: UpstreamError; readonly pausedMs: number }
  | { readonly kind: 'orphaned' | 'wrong_height'; readonly block: FinalizedBlock }
  | { readonly kind: 'mismatch'; readonly block: FinalizedBlock };

/**
 * Reads blocks in ascending order, from one node at a time, by stream or by parallel calls, and pauses by not pulling
 * when the window is full. Every block that links is handed over; for one that does not, `ForkResolver` decides who
 * is wrong.
 */
export class BlockReader {
  readonly #options: BlockReaderOptions;
  readonly #deps: BlockReaderDependencies;
  readonly #linked: LinkedBlocks;
  readonly #ways: TwoWays;
  readonly #troubles: NodeTroubles;
  readonly #pause: Pause;
  readonly #moved = new WorkSignal();
  /** Where a node's stream begins, if above the node's lowest block: below that its blocks are requested one by one. */
  readonly #streamFrom = new Map<string, number>();
  #quickRetries = 0;
  /** When the first of these retries was made. */
  #quickSinceMs = -Infinity;
  /** Consecutive reads that ended because nothing arrived in time. */
  #silences = 0;
  /** Consecutive checks in which no node served the next height. */
  #unservedLooks = 0;

  constructor(options: BlockReaderOptions, dependencies: BlockReaderDependencies) {
    this.#options = options;
    this.#deps = dependencies;
    this.#linked = dependencies.linked;
    this.#ways = dependencies.ways;
    this.#troubles = dependencies.troubles;
    this.#pause = new Pause({ clock: dependencies.clock });
  }

  /** No node serves the next height, and none has for a while. */
  get isUnserved(): boolean {
    return this.#unservedLooks >= UNSERVED_LOOKS_BEFORE_TOLD;
  }

  /** There may be room now, or something else to read. */
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
    return this.#linked.next <= this.#deps.upperBound();
  }

  /** Reads from the best node until there is a reason to choose again, and handles that reason. */
  async #readOn(signal: AbortSignal): Promise<void> {
    const { nodes, logger, metrics } = this.#deps;
    const way = this.#ways.choose(nodes.forHeight(this.#linked.next, BLOCK_STREAM), (node) =>
      this.#mayStream(node),
    );
    if (way === undefined) {
      this.#unservedLooks += 1;
      if (this.#unservedLooks === UNSERVED_LOOKS_BEFORE_TOLD) {
        logger.warn({ height: this.#linked.next }, 'no access node serves the next height');
        this.#deps.onUnserved();
      }
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
        // It may have been ended to make way for another stream.
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
        this.#deps.refusals.refuse({ ...way, block: ending.block }, ending.kind, this.#linked.next);
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
      { limitMs: patienceMs(this.#silences, this.#options.silentAfterMs) },
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
        // The node was found to lie meanwhile, or its stream must make way.
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
      parallelReads: this.#options.parallelReads,
      timeoutMs: patienceMs(this.#silences),
      upperBound: () => this.#deps.upperBound(),
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

  /** A single answer shows that the call works, and so does a stream that continues. */
  #praise(way: Way, delivered: number): void {
    const streams = this.#ways.isStream(way);
    if (delivered !== (streams ? BLOCKS_BEFORE_PRAISE : 1)) return;
    this.#deps.nodes.succeeded(way.node, way.method);
    if (streams) this.#ways.streams(way);
  }

  #append(answer: Answer): void {
    this.#ways.cameBy();
    this.#troubles.clear();
    this.#deps.refusals.accepted();
    this.#quickRetries = 0;
    this.#silences = 0;
    this.#deps.onBlock(answer);
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
      // This node learns of the block in a moment: meanwhile another may be the real obstacle.
      this.#troubles.answered(node.name);
      this.#ways.skip(way);
      return this.#pause.sleep(this.#options.notFoundRetryMs, signal);
    }
    this.#deps.logger.debug(
      { node: node.name, height: this.#linked.next, kind, error: error.message },
      'reading blocks failed',
    );
    if (this.#ways.isStream(way)) {
      // Its few streams may all be taken, even by us: blocks can be read without one.
      if (kind === 'rate_limited') this.#ways.callInstead(node.name, POLLED_INSTEAD_MS);
      if (kind === 'below_root' && (lowestHeight ?? 0) > this.#linked.next) {
        this.#streamFrom.set(node.name, lowestHeight ?? 0);
        return;
      }
    }
    if (kind === 'malformed') this.#deps.metrics.invalidBlocks.inc({ reason: 'malformed' });
    if (kind === 'deadline') this.#silences += 1;
    // A node too old for the stream is asked for single blocks.
    if (kind === 'unimplemented' && this.#ways.isStream(way)) this.#troubles.answered(node.name);
    else this.#troubles.failed(error);
    if (kind === 'rate_limited' || kind === 'unimplemented' || kind === 'below_root') this.#ways.avoid(way);
    else {
      this.#ways.failed(way, error.message);
      this.#deps.nodes.report(node, fault ?? 'failing', error.message, error.method);
    }
    await this.#pause.sleep(this.#ways.pauseMs(), signal);
  }

  /** Nothing arrived: counts against the call, and is reported. */
  #hold(way: Way, kind: NodeTrouble['kind'], fault: Exclude<NodeFault, 'lied'>, what: string): void {
    const { node, method } = way;
    const said = `${method} at ${node.name}: ${what}`;
    this.#troubles.note(node.name, method, kind, said);
    this.#ways.failed(way, said);
    this.#deps.nodes.report(node, fault, said, method);
  }

  async #resolve(refused: Answer, signal: AbortSignal): Promise<void> {
    const resolution = await this.#deps.resolver.resolve(refused, signal);
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
