import { faultOf } from '../../access/index.js';
import type {
  AccessNode,
  AccessNodes,
  NodeFault,
  NodeTrouble,
  NodeTroubles,
  UpstreamError,
} from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { LinkedBlocks } from '../forks/LinkedBlocks.js';
import type { Refusals } from '../forks/Refusals.js';
import type { FinalityMetrics } from '../ports.js';
import { patienceMs } from '../upstream/patienceMs.js';
import type { TwoWays, Way } from '../upstream/TwoWays.js';

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

export interface ReadEndingsDependencies {
  readonly nodes: AccessNodes;
  readonly linked: LinkedBlocks;
  readonly ways: TwoWays;
  readonly refusals: Refusals;
  /** What went wrong since the last block arrived. */
  readonly troubles: NodeTroubles;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: FinalityMetrics;
}

/** Why reading from a node ended. */
export type ReadEnding =
  | { readonly kind: 'moved' }
  | { readonly kind: 'ended'; readonly delivered: number }
  | { readonly kind: 'silent' }
  | { readonly kind: 'failed'; readonly error: UpstreamError; readonly pausedMs: number }
  | { readonly kind: 'orphaned' | 'wrong_height'; readonly block: FinalizedBlock };

/**
 * Decides what follows when reading from a node has ended: what counts against the node or its call, and how long to
 * pause. Remembers what failed since the last block arrived, and the first height that each node streams.
 */
export class ReadEndings {
  readonly #deps: ReadEndingsDependencies;
  readonly #linked: LinkedBlocks;
  readonly #ways: TwoWays;
  readonly #troubles: NodeTroubles;
  /** The first height of a node's stream, if above its lowest block: blocks below are requested one by one. */
  readonly #streamFrom = new Map<string, number>();
  #quickRetries = 0;
  /** When the first of these retries was made. */
  #quickSinceMs = -Infinity;
  /** Consecutive reads that ended because nothing arrived in time. */
  #silences = 0;

  constructor(dependencies: ReadEndingsDependencies) {
    this.#deps = dependencies;
    this.#linked = dependencies.linked;
    this.#ways = dependencies.ways;
    this.#troubles = dependencies.troubles;
  }

  /** True while the node should be asked for the next height by stream. */
  mayStream(node: AccessNode): boolean {
    const from = this.#streamFrom.get(node.name);
    return (from === undefined || this.#linked.next >= from) && this.#ways.mayStream(node);
  }

  /** How long to wait for an answer: longer after recent silences. */
  patienceMs(shortMs?: number): number {
    return patienceMs(this.#silences, shortMs);
  }

  /** A block that links has arrived. */
  came(): void {
    this.#ways.cameBy();
    this.#troubles.clear();
    this.#deps.refusals.accepted();
    this.#quickRetries = 0;
    this.#silences = 0;
  }

  /** Returns the pause before the next reading. */
  ended(way: Way, ending: ReadEnding): number {
    const streams = this.#ways.isStream(way);
    switch (ending.kind) {
      case 'moved':
        this.#troubles.clear();
        return 0;
      case 'ended':
        if (streams) this.#countReopened('ended');
        // The stream may have ended to make way for another one.
        if (!streams || ending.delivered > 0 || !this.mayStream(way.node)) return 0;
        this.#blame(way, 'refused', 'failing', `ended the stream without block ${this.#linked.next}`);
        return this.#ways.pauseMs();
      case 'silent':
        if (streams) this.#countReopened('stale');
        this.#silences += 1;
        this.#blame(way, 'unreachable', 'stale', `block ${this.#linked.next} did not come`);
        return 0;
      case 'failed':
        if (streams) this.#countReopened(ending.error.kind);
        return this.#failed(way, ending.error, ending.pausedMs);
      case 'orphaned':
      case 'wrong_height':
        this.#deps.metrics.invalidBlocks.inc({ endpoint: way.node.name, reason: ending.kind });
        this.#deps.refusals.refuse({ ...way, block: ending.block }, ending.kind, this.#linked.next);
        this.#ways.failed(way, `a block was refused: ${ending.kind}`);
        return this.#ways.pauseMs();
    }
  }

  #countReopened(reason: string): void {
    this.#deps.metrics.streamReopens.inc({ stream: 'blocks', reason });
  }

  #failed(way: Way, error: UpstreamError, pausedMs: number): number {
    const { node } = way;
    const { kind, lowestHeight } = error;
    const fault = faultOf(kind);
    if (fault !== undefined && pausedMs >= FORGIVEN_PAUSE_MS) return 0;
    if (kind === 'not_found' && this.#retriesQuickly()) {
      // This node will have the block in a moment; until then another may be the real obstacle.
      this.#troubles.answered(node.name);
      this.#ways.skip(way);
      return NOT_FOUND_RETRY_MS;
    }
    this.#deps.logger.debug(
      { node: node.name, height: this.#linked.next, kind, error: error.message },
      'reading blocks failed',
    );
    if (this.#ways.isStream(way)) {
      // The node's few streams may all be taken, even by us: blocks can be read without one.
      if (kind === 'rate_limited') this.#ways.callInstead(node.name, POLLED_INSTEAD_MS);
      if (kind === 'below_root' && (lowestHeight ?? 0) > this.#linked.next) {
        this.#streamFrom.set(node.name, lowestHeight ?? 0);
        return 0;
      }
    }
    if (kind === 'malformed')
      this.#deps.metrics.invalidBlocks.inc({ endpoint: node.name, reason: 'malformed' });
    if (kind === 'deadline') this.#silences += 1;
    // A node too old for the stream is asked for single blocks.
    if (kind === 'unimplemented' && this.#ways.isStream(way)) this.#troubles.answered(node.name);
    else this.#troubles.failed(error);
    if (kind === 'rate_limited' || kind === 'unimplemented' || kind === 'below_root' || kind === 'unproven')
      this.#ways.avoid(way);
    else {
      this.#ways.failed(way, error.message);
      this.#deps.nodes.report(node, fault ?? 'failing', error.message, error.method);
    }
    return this.#ways.pauseMs();
  }

  /** True for the first few refusals since a block arrived. */
  #retriesQuickly(): boolean {
    const nowMs = this.#deps.clock.monotonic();
    if (this.#quickRetries === 0) this.#quickSinceMs = nowMs;
    if (this.#quickRetries >= MAX_QUICK_RETRIES || nowMs - this.#quickSinceMs >= QUICK_RETRIES_MS)
      return false;
    this.#quickRetries += 1;
    return true;
  }

  /** Nothing arrived: counts this against the call, and reports it. */
  #blame(way: Way, kind: NodeTrouble['kind'], fault: Exclude<NodeFault, 'lied'>, what: string): void {
    const { node, method } = way;
    const said = `${method} at ${node.name}: ${what}`;
    this.#troubles.note(node.name, method, kind, said);
    this.#ways.failed(way, said);
    this.#deps.nodes.report(node, fault, said, method);
  }
}
