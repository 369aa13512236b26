import { NodeChooser } from '../../access/index.js';
import type { AccessNodes, BlockSource, NodeTrouble } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import type { BlockJob, Jobs, Notifiable } from '../../jobqueue/index.js';
import { EdgeLog } from '../../observability/index.js';
import type { Logger } from '../../observability/index.js';
import { runTogether } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { askForBlock } from '../forks/askForBlock.js';
import type { Answer } from '../forks/askForBlock.js';
import { ForkResolver } from '../forks/ForkResolver.js';
import type { ChainTrouble, StoredBlockReader } from '../forks/ForkResolver.js';
import { LinkedBlocks } from '../forks/LinkedBlocks.js';
import type { BlockLink, RootParent } from '../forks/LinkedBlocks.js';
import { TipCheck } from '../forks/TipCheck.js';
import { BLOCK_CALL, BLOCK_STREAM } from '../ports.js';
import type { ChainWindow, FinalityMetrics, ReportedHead } from '../ports.js';
import { BlockBelow } from './BlockBelow.js';
import { BlockReader } from './BlockReader.js';

export interface FinalizedBlocksOptions {
  /**
   * A height that the chain is known to have reached, whatever head is reported. Lagging nodes report a low head at
   * first, and a block far below the tip must not count as the tip. Default: none.
   */
  readonly reachedHeight?: number | undefined;
  readonly sporkRoots?: readonly RootParent[];
  /** For a range: which of its neighbours are not indexed and have to be requested, to prove the ends of the range. */
  readonly asksFor?: { readonly below: boolean; readonly above: boolean } | undefined;
  /** The lowest height of the store, for the `rewind` advice. Default: the one above the watermark at construction. */
  readonly firstHeight?: number | undefined;
  /** Delay before a failed source is replaced. */
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
}

export interface FinalizedBlocksDependencies {
  readonly nodes: AccessNodes;
  readonly window: ChainWindow;
  /** The block at the watermark; `undefined` on an empty store. */
  readonly latestBlock: () => BlockLink | undefined;
  /** The last report of a head at this height, from any node, or from any but this one. */
  readonly reportedHead: (height: number, besides?: string) => ReportedHead | undefined;
  /** Notified whenever a height became available: wakes the consumer. */
  readonly signal: Notifiable;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: FinalityMetrics;
  /** For the `rewind` advice; without it the advice is one height below the watermark. */
  readonly storedBlock?: StoredBlockReader;
  /** Another block was handed out at this height, from a node that lied; this is the right one. */
  readonly onReplaced: (block: FinalizedBlock, blockSource: BlockSource) => void;
}

/** Within this distance of the head a block is handed out before its child is known. */
const TIP_HEIGHTS = 2;

/** How long a node that lied in its stream is asked for single blocks instead. */
const FORGER_POLLED_MS = 600_000;

/** Why the lowest missing block at or below the head does not arrive. */
export interface HeldUpBlock {
  readonly height: number;
  readonly troubles: readonly NodeTrouble[];
  /** No node serves the height. */
  readonly isUnserved: boolean;
}

/**
 * The finalized blocks as jobs: reads them ahead of the watermark (`BlockReader`), links them parent by parent, and only
 * then hands them out. Call `notify` when the watermark or the head has moved.
 *
 * A block that links may still be off the finalized chain, which shows only when its child names another parent. If it
 * were complete and durable by then, only a `rewind` would help. So the last linked block waits for its child.
 * Exceptions: near the tip, where no child may be known for long, and at the stop height, where no child may be requested
 * or no node has it (there `TipCheck` confirms the block); a window of one; a block that the spork table confirms.
 *
 * Bounds: it requests heights in [watermark + 1 .. min(watermark + K, head, stopHeight)] only, and holds no others; for a
 * range also the two neighbours (`asksFor`), the upper one within the window.
 */
export class FinalizedBlocks implements Jobs<BlockJob<FinalizedBlock>>, Notifiable {
  readonly #deps: FinalizedBlocksDependencies;
  readonly #linked: LinkedBlocks;
  readonly #resolver: ForkResolver;
  readonly #tipCheck: TipCheck;
  readonly #below: BlockBelow | undefined;
  readonly #window: ChainWindow;
  readonly #reachedHeight: number;
  readonly #asksForAbove: boolean;
  #handedOutTo: number;
  readonly #chooser: NodeChooser;
  readonly #reader: BlockReader;

  constructor(options: FinalizedBlocksOptions, dependencies: FinalizedBlocksDependencies) {
    const { asksFor, sporkRoots = [] } = options;
    const { window, nodes, clock, random, logger, storedBlock } = dependencies;
    this.#window = window;
    // A spork in the table has started.
    const begun = sporkRoots.map(({ rootHeight }) => rootHeight + TIP_HEIGHTS);
    this.#reachedHeight = Math.max(options.reachedHeight ?? 0, ...begun);
    this.#asksForAbove = asksFor?.above === true;
    this.#deps = dependencies;
    const height = window.latestIndexedHeight();
    this.#handedOutTo = height;
    const latestBlock = () => dependencies.latestBlock() ?? this.#below?.block;
    this.#linked = new LinkedBlocks(sporkRoots, { window, latestBlock });
    const edge = new EdgeLog({ clock, logger });
    const chooser = new NodeChooser({
      stream: BLOCK_STREAM,
      call: BLOCK_CALL,
      pauses: { minMs: options.backoffMinMs, maxMs: options.backoffMaxMs },
      clock,
      nodes,
      random,
      onLeft: (node, reason) => edge.lost({ node, reason }, 'block streams fail, using single calls instead'),
      onBack: (node) => edge.back({ node }, 'block stream is back'),
    });
    this.#chooser = chooser;
    this.#resolver = new ForkResolver({
      firstHeight: options.firstHeight ?? height + 1,
      hasSporks: sporkRoots.length > 0,
      nodes,
      latestBlock,
      clock,
      logger,
      chooser,
      storedBlock,
      linked: this.#linked,
      metrics: dependencies.metrics,
    });
    if (asksFor?.below === true) {
      const { troubles } = chooser;
      this.#below = new BlockBelow({ height, isEndKnown: !asksFor.above, nodes, troubles, clock });
    }
    this.#reader = new BlockReader({
      nodes,
      clock,
      logger,
      chooser,
      linked: this.#linked,
      resolver: this.#resolver,
      metrics: dependencies.metrics,
      upperBound: () => this.#toRead(),
      onBlock: (answer) => this.#append(answer),
      onUnserved: () => dependencies.signal.notify(),
    });
    this.#tipCheck = new TipCheck({
      nodes,
      clock,
      reportedHead: dependencies.reportedHead,
      isLast: ({ height, id }) => this.#linked.next === height + 1 && this.blockAt(height)?.id === id,
      onTrue: () => dependencies.signal.notify(),
      onFalse: (lie) => this.#takeBack(lie),
    });
  }

  /** Resolves when `signal` aborts. No expected errors. */
  async run(signal: AbortSignal): Promise<void> {
    const read = async (ended: AbortSignal): Promise<void> => {
      await this.#below?.find(ended);
      await this.#reader.run(ended);
    };
    await runTogether(signal, [read, (ended) => this.#tipCheck.run(ended)]);
  }

  /** The watermark or the head moved. */
  notify(): void {
    this.#linked.prune();
    this.#reader.notify();
  }

  /** A node reported a head, which may confirm the last block. */
  told(): void {
    this.#tipCheck.told();
  }

  /** A node answers again: ends the current pause. */
  wake(): void {
    this.#below?.wake();
    this.#reader.wake();
  }

  /** What holds up the lowest missing block; `undefined` while nothing is known to be wrong. */
  heldUpBy(): HeldUpBlock | undefined {
    const height = this.#below?.isSought === true ? this.#below.height : this.#linked.next;
    const doubtful = this.#tipCheck.trouble();
    const troubles = this.#chooser.troubles.all();
    if (doubtful !== undefined && troubles.length === 0)
      return { height: doubtful.height, troubles: [doubtful.trouble], isUnserved: false };
    if (height > this.#toRead()) return undefined;
    const { isUnserved } = this.#reader;
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
    if (isTip || this.#window.heights === 1 || this.#linked.confirmedAt(linked) !== undefined)
      return Math.min(linked, this.#window.stopHeight ?? linked);
    return Math.min(linked, Math.max(this.#handedOutTo, linked - 1));
  }

  /** The linked block of a height above the watermark. */
  blockAt(height: number): FinalizedBlock | undefined {
    return this.#linked.at(height)?.block;
  }

  /** Blocks held: at most K. */
  size(): number {
    return this.#linked.size;
  }

  /** Set while no node that answers gives a block that fits what is stored, or what the spork table confirms. */
  chainTrouble(): ChainTrouble | undefined {
    return this.#resolver.trouble();
  }

  /** Set while the nodes do not agree on the block below a range. */
  disputedBelow(): { readonly height: number; readonly sinceMs: number } | undefined {
    const sinceMs = this.#below?.disputedSinceMs;
    return this.#below && sinceMs !== undefined ? { height: this.#below.height, sinceMs } : undefined;
  }

  /** The highest height whose block may be read now; for a range also the child of its last block. */
  #toRead(): number {
    const { heights, stopHeight = Infinity } = this.#window;
    const bound = this.#window.upperBound();
    if (!this.#asksForAbove || bound < stopHeight) return bound;
    return Math.min(bound + 1, this.#window.latestIndexedHeight() + heights);
  }

  /** True for a height whose child may be unknown for long, or may not be requested. */
  #isTip(height: number): boolean {
    const { stopHeight = Infinity } = this.#window;
    const tip = Math.max(this.#window.finalizedHeight() ?? 0, this.#reachedHeight);
    if (height >= tip - TIP_HEIGHTS || height > stopHeight) return true;
    return height === stopHeight && (!this.#asksForAbove || this.#reader.isUnserved);
  }

  #append({ node, method, block }: Answer): void {
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
    this.#reader.notify();
  }
}
