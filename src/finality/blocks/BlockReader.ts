import { StreamReader, UpstreamError } from '../../access/index.js';
import type { AccessNode, AccessNodes, NodeTroubles, ReceivedBlock } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import type { Logger } from '../../observability/index.js';
import { Pause } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { Answer } from '../forks/BlockPoll.js';
import type { ForkResolver } from '../forks/ForkResolver.js';
import type { LinkedBlocks } from '../forks/LinkedBlocks.js';
import type { Refusals } from '../forks/Refusals.js';
import type { FinalityMetrics } from '../ports.js';
import { STREAM_SILENT_MS } from '../upstream/patienceMs.js';
import { BLOCK_STREAM, pollBlocks } from '../upstream/pollBlocks.js';
import type { TwoWays, Way } from '../upstream/TwoWays.js';
import { ReadEndings } from './ReadEndings.js';
import type { ReadEnding } from './ReadEndings.js';

/**
 * Searches for a node that fail before this is reported: at the edge of a spork the next nodes have yet to complete
 * their handshake.
 */
const UNSERVED_LOOKS_BEFORE_TOLD = 5;

/** Consecutive blocks after which a stream counts as working: one that breaks after each block does not. */
const BLOCKS_BEFORE_PRAISE = 3;

export interface BlockReaderOptions {
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

/** A block that does not link. */
interface Mismatch {
  readonly kind: 'mismatch';
  readonly block: FinalizedBlock;
}

/**
 * Reads blocks in ascending order, from one node at a time, by stream or by parallel calls, and pauses by not pulling
 * when the window is full. Every block that links is handed over; for one that does not, `ForkResolver` decides who is
 * wrong. For any other reason to stop reading, `ReadEndings` decides which node is to blame, and what follows.
 */
export class BlockReader {
  readonly #options: BlockReaderOptions;
  readonly #deps: BlockReaderDependencies;
  readonly #linked: LinkedBlocks;
  readonly #ways: TwoWays;
  readonly #troubles: NodeTroubles;
  readonly #pause: Pause;
  readonly #endings: ReadEndings;
  readonly #moved = new WorkSignal();
  /** Consecutive checks in which no node served the next height. */
  #unservedLooks = 0;

  constructor(options: BlockReaderOptions, dependencies: BlockReaderDependencies) {
    this.#options = options;
    this.#deps = dependencies;
    this.#linked = dependencies.linked;
    this.#ways = dependencies.ways;
    this.#troubles = dependencies.troubles;
    this.#pause = new Pause({ clock: dependencies.clock });
    this.#endings = new ReadEndings(dependencies);
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
    return this.#linked.next <= this.#deps.upperBound();
  }

  /** Reads from the best node until there is a reason to choose again, and handles that reason. */
  async #readOn(signal: AbortSignal): Promise<void> {
    const way = this.#ways.choose(this.#deps.nodes.forHeight(this.#linked.next, BLOCK_STREAM), (node) =>
      this.#endings.mayStream(node),
    );
    if (way === undefined) {
      this.#unserved();
      return this.#pause.sleep(this.#ways.pauseMs(), signal);
    }
    this.#unservedLooks = 0;
    const ending = await this.#readFrom(way, signal);
    const pauseMs =
      ending.kind === 'mismatch'
        ? await this.#resolve({ ...way, block: ending.block }, signal)
        : this.#endings.ended(way, ending);
    await this.#pause.sleep(pauseMs, signal);
  }

  #unserved(): void {
    this.#unservedLooks += 1;
    if (this.#unservedLooks !== UNSERVED_LOOKS_BEFORE_TOLD) return;
    this.#deps.logger.warn({ height: this.#linked.next }, 'no access node serves the next height');
    this.#deps.onUnserved();
  }

  async #readFrom(way: Way, signal: AbortSignal): Promise<ReadEnding | Mismatch> {
    const { clock } = this.#deps;
    const { node, method } = way;
    const blocks = new StreamReader(
      { limitMs: this.#endings.patienceMs(STREAM_SILENT_MS) },
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
        // The nodes of the next spork may serve the next height, or the watermark may have passed what was read.
        if (this.#linked.next !== height + 1 || !this.#serves(node, height + 1)) return { kind: 'moved' };
        // The node was found to lie meanwhile, or its stream must make way.
        if (this.#ways.isStream(way) && !this.#endings.mayStream(node)) return { kind: 'moved' };
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
      timeoutMs: this.#endings.patienceMs(),
      upperBound: () => this.#deps.upperBound(),
      mayStream: () => this.#endings.mayStream(way.node),
      signal,
    });
  }

  #serves(node: AccessNode, height: number): boolean {
    return this.#deps.nodes.forHeight(height).some((other) => other.name === node.name);
  }

  /** True when the node was set aside meanwhile, and there is one that was not. */
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
    this.#endings.came();
    this.#deps.onBlock(answer);
  }

  /** Returns the pause before the next reading. */
  async #resolve(refused: Answer, signal: AbortSignal): Promise<number> {
    this.#deps.metrics.invalidBlocks.inc({
      endpoint: refused.node.name,
      reason: this.#linked.isAcceptable(refused.block) ? 'parent_mismatch' : 'not_vouched',
    });
    const resolution = await this.#deps.resolver.resolve(refused, signal);
    if (resolution.kind === 'accept') {
      this.#deps.nodes.succeeded(resolution.answer.node, resolution.answer.method);
      this.#append(resolution.answer);
      this.#ways.failed(refused, `sent block ${refused.block.height}, which was refused`);
      return 0;
    }
    for (const way of resolution.avoid)
      this.#ways.failed(way, `sent block ${way.block.height}, which was refused`);
    return resolution.pauseMs;
  }
}
