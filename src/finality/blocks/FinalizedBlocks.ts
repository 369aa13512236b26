import { NodeChooser } from '../../access/index.js';
import type { AccessNodes, BlockSource, NodeTrouble } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import type { BlockJob, Jobs, Notifiable } from '../../jobqueue/index.js';
import { EdgeLog } from '../../observability/index.js';
import type { Logger } from '../../observability/index.js';
import { runTogether } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { BlockPoll } from '../forks/BlockPoll.js';
import type { Answer, StoredBlockReader } from '../forks/BlockPoll.js';
import { ForkResolver } from '../forks/ForkResolver.js';
import type { ChainTrouble, ParentMismatch } from '../forks/ForkResolver.js';
import { LinkedBlocks } from '../forks/LinkedBlocks.js';
import type { Watermark } from '../forks/LinkedBlocks.js';
import { Refusals } from '../forks/Refusals.js';
import { TipCheck } from '../forks/TipCheck.js';
import type { FinalityMetrics, LinkedHeights, ReportedHead } from '../ports.js';
import { BLOCK_CALL, BLOCK_STREAM } from '../upstream/pollBlocks.js';
import { BlockBelow } from './BlockBelow.js';
import { BlockBounds } from './BlockBounds.js';
import type { BlockBoundsOptions } from './BlockBounds.js';
import { BlockReader } from './BlockReader.js';

export interface FinalizedBlocksOptions extends BlockBoundsOptions {
  /** The lowest height of the store, for the `rewind` advice. Default: the one above the watermark at construction. */
  readonly firstHeight?: number | undefined;
  /** Blocks requested at once from a node without streams. Default 8. */
  readonly parallelReads?: number;
  /** Delay before a failed source is replaced. Defaults 250 and 10,000. */
  readonly backoffMinMs?: number;
  readonly backoffMaxMs?: number;
}

export interface FinalizedBlocksDependencies {
  readonly nodes: AccessNodes;
  readonly watermark: Watermark;
  /** Where linked blocks are kept. */
  readonly heights: LinkedHeights;
  /** The finalized head. */
  readonly head: () => number;
  /** The last report of a head at this height (see `TipCheck`). Default: none. */
  readonly reportedHead?: (height: number, besides?: string) => ReportedHead | undefined;
  /** The highest height that may be worked on now. */
  readonly upperBound: () => number;
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
 * Bounds: it requests heights in [watermark + 1 .. min(watermark + K, head, stopHeight)] only, and holds no others; for a
 * range also the two neighbours (`asksFor`), the upper one within the window.
 */
export class FinalizedBlocks implements Jobs<BlockJob<FinalizedBlock>>, Notifiable {
  readonly #deps: FinalizedBlocksDependencies;
  readonly #linked: LinkedBlocks;
  readonly #resolver: ForkResolver;
  readonly #poll: BlockPoll;
  readonly #tipCheck: TipCheck;
  readonly #below: BlockBelow | undefined;
  readonly #bounds: BlockBounds;
  readonly #chooser: NodeChooser;
  readonly #reader: BlockReader;
  readonly #refusals: Refusals;

  constructor(options: FinalizedBlocksOptions, dependencies: FinalizedBlocksDependencies) {
    this.#deps = dependencies;
    const { heights, nodes, clock, random, logger, storedBlock } = dependencies;
    const watermark: Watermark = {
      latestIndexedHeight: () => dependencies.watermark.latestIndexedHeight(),
      latestBlock: () => dependencies.watermark.latestBlock() ?? this.#below?.block,
    };
    this.#linked = new LinkedBlocks({ sporkRoots: options.sporkRoots ?? [] }, { watermark, heights });
    const pauses = { minMs: options.backoffMinMs ?? 250, maxMs: options.backoffMaxMs ?? 10_000 };
    const edge = new EdgeLog({ clock, logger });
    const chooser = new NodeChooser(
      { stream: BLOCK_STREAM, call: BLOCK_CALL, pauses },
      {
        clock,
        nodes,
        random,
        onLeft: (node, reason) =>
          edge.lost({ node, reason }, 'block streams fail, using single calls instead'),
        onBack: (node) => edge.back({ node }, 'block stream is back'),
      },
    );
    this.#chooser = chooser;
    const { troubles } = chooser;
    this.#refusals = new Refusals({ nodes, troubles, logger });
    this.#resolver = new ForkResolver(
      {
        firstHeight: options.firstHeight ?? watermark.latestIndexedHeight() + 1,
        hasSporks: (options.sporkRoots ?? []).length > 0,
      },
      {
        nodes,
        linked: this.#linked,
        watermark,
        clock,
        logger,
        chooser,
        storedBlock,
        refusals: this.#refusals,
      },
    );
    this.#poll = new BlockPoll({ nodes });
    if (options.asksFor?.below === true) {
      const poll = new BlockPoll({ nodes, onFailure: (error) => troubles.failed(error) });
      const height = watermark.latestIndexedHeight();
      const isEndKnown = !options.asksFor.above;
      this.#below = new BlockBelow({ height, isEndKnown }, { nodes, poll, troubles, clock });
    }
    this.#reader = new BlockReader(
      { parallelReads: options.parallelReads ?? 8 },
      {
        nodes,
        clock,
        logger,
        metrics: dependencies.metrics,
        upperBound: () => this.#bounds.toRead(),
        linked: this.#linked,
        chooser,
        resolver: this.#resolver,
        refusals: this.#refusals,
        onBlock: (answer) => this.#append(answer),
        onUnserved: () => dependencies.signal.notify(),
      },
    );
    this.#tipCheck = new TipCheck({
      nodes,
      clock,
      poll: this.#poll,
      reportedHead: dependencies.reportedHead ?? (() => undefined),
      isLast: ({ height, id }) => this.#linked.next === height + 1 && this.blockAt(height)?.id === id,
      onTrue: () => dependencies.signal.notify(),
      onFalse: (lie) => this.#takeBack(lie),
    });
    this.#bounds = new BlockBounds(options, {
      linked: this.#linked,
      tipCheck: this.#tipCheck,
      reader: this.#reader,
      watermark: dependencies.watermark,
      head: dependencies.head,
      upperBound: dependencies.upperBound,
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
    if (height > this.#bounds.toRead()) return undefined;
    const { isUnserved } = this.#reader;
    return troubles.length > 0 || isUnserved ? { height, troubles, isUnserved } : undefined;
  }

  /** Asks every node that serves the height for its block. Expected errors: the signal's abort reason. */
  async ask(height: number, signal: AbortSignal): Promise<readonly Answer[]> {
    return (await this.#poll.ask(height, signal)).answers;
  }

  /** The job of a height above the watermark once it is linked and confirmed by its child (see `head`). O(1). */
  atIndex(height: number): BlockJob<FinalizedBlock> | undefined {
    const job = height > this.head() ? undefined : this.#linked.at(height);
    if (job !== undefined) this.#bounds.handedOut(height);
    return job;
  }

  /** The highest height that `atIndex` has (see `BlockBounds`). */
  head(): number {
    return this.#bounds.toHandOut();
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

  /** Set while the nodes do not agree on the block below a range. */
  disputedBelow(): { readonly height: number; readonly sinceMs: number } | undefined {
    const sinceMs = this.#below?.disputedSinceMs;
    return this.#below && sinceMs !== undefined ? { height: this.#below.height, sinceMs } : undefined;
  }

  /** Set while every node that answers gives another last block of a spork than the spork table confirms. */
  missingSporkEnd(): ChainTrouble | undefined {
    return this.#resolver.missingEnd();
  }

  #append({ node, method, block }: Answer): void {
    const blockSource = { name: node.name, method };
    const isInHand = this.#linked.append(block, blockSource);
    if (method === BLOCK_STREAM && this.#bounds.isTip(block.height))
      this.#tipCheck.begin({ node, method, block });
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
    this.#deps.metrics.invalidBlocks.inc({ endpoint: node.name, reason: 'orphaned' });
    this.#linked.takeBack(block.height);
    this.#refusals.refuse(lie, 'orphaned', block.height);
    this.#chooser.failed(lie, 'a block was refused: orphaned');
    this.#chooser.callInstead(node.name, FORGER_POLLED_MS);
    this.#reader.notify();
  }
}
