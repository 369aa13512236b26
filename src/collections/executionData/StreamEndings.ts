import type { AccessMethod, AccessNode, AccessNodes, NodeFault, NodeRotation } from '../../access/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { backoffMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { BlockWindow } from '../ports.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import { usedMethod } from './BodyStream.js';
import type { BodyStream } from './BodyStream.js';
import type { ExecutionDataTroubles } from './ExecutionDataTroubles.js';
import type { StreamEnd } from './StreamFault.js';

/** Longest pause after a node refused a stream for lack of capacity: other clients would take the next free one. */
const REFUSED_MAX_MS = 2_000;
/** Consecutive heights after which a stream counts as working: one that breaks after each height does not. */
const HEIGHTS_BEFORE_PRAISE = 3;
/** After this many streams in a row that delivered nothing for a due height, the node's call counts as failing. */
const FRUITLESS_STREAMS = 2;

/** An opened stream. */
export interface OpenedStream {
  readonly node: AccessNode;
  readonly method: AccessMethod;
  readonly height: number;
}

export interface StreamEndingsOptions {
  readonly stream: BodyStream;
  /** Pause before the stream is reopened: doubles from here … */
  readonly backoffMinMs: number;
  /** … up to here. */
  readonly backoffMaxMs: number;
  /** How often a node without the stream is asked again whether it offers it. */
  readonly probeMs: number;
}

export interface StreamEndingsDependencies {
  readonly nodes: Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly rotation: NodeRotation;
  readonly troubles: ExecutionDataTroubles;
  readonly window: Pick<BlockWindow, 'isCertain'>;
  /** The highest height that is due; `undefined` while unknown. */
  dueHeight(): number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections' | 'streamReopens'>;
}

/** Draws the consequences of how streams go and end: which node is credited or blamed, and the pause before the next. */
export class StreamEndings {
  readonly #options: StreamEndingsOptions;
  readonly #dependencies: StreamEndingsDependencies;
  readonly #reporter: FaultReporter;
  /** Verified messages of the current stream. */
  #verified = 0;
  /** Consecutive streams of the same node that delivered nothing for the same height. */
  #fruitless = { node: '', height: 0, count: 0 };
  #isRefused = false;

  constructor(options: StreamEndingsOptions, dependencies: StreamEndingsDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#reporter = new FaultReporter({ source: options.stream.source }, dependencies);
  }

  opened(): void {
    this.#verified = 0;
  }

  came(node: AccessNode, opened: AccessMethod, isVerified: boolean): void {
    const { rotation, troubles } = this.#dependencies;
    this.#isRefused = false;
    troubles.came(node);
    if (!isVerified) return;
    rotation.succeeded();
    this.#verified += 1;
    if (this.#verified >= HEIGHTS_BEFORE_PRAISE)
      this.#reporter.succeeded(node, usedMethod(this.#options.stream, node, opened));
  }

  /** The node does not support the call. */
  offersNone({ node, method }: OpenedStream, said: string): void {
    // A missing fallback says nothing about the call itself.
    if (method !== this.#options.stream.fallback)
      this.#dependencies.troubles.offersNone(node, said, this.#options.probeMs);
  }

  /** Returns the pause before the next stream. `next` is the height that is now missing. */
  ended({ node, method: opened, height }: OpenedStream, end: StreamEnd, next: number): number {
    const { clock, logger, metrics, random, rotation, troubles, window } = this.#dependencies;
    const { label, words } = this.#options.stream;
    const method = end.method ?? usedMethod(this.#options.stream, node, opened);
    metrics.streamReopens.inc({ stream: label, reason: end.reason });
    troubles.ended(node, method, next, end);
    const isLie = end.contradicts !== undefined && window.isCertain(next, end.contradicts);
    const fault = isLie ? 'lied' : (end.fault ?? this.#faultOf(node, end, next, next === height));
    this.#reporter.report(node, method, { ...end, fault }, next, { reason: end.reason });
    if (troubles.lacksUntilMs(node, next) > clock.monotonic()) return 0;
    const isBusy = end.reason === 'rate_limited';
    const isRefused = isBusy || end.reason === 'unauthenticated';
    if (isRefused && !this.#isRefused) {
      logger.warn({ node: node.name, error: end.said }, `${words.giver} refused the ${words.stream}`);
    }
    this.#isRefused = isRefused;
    rotation.failed(node);
    const { backoffMinMs: minMs, backoffMaxMs } = this.#options;
    const maxMs = isBusy ? Math.min(backoffMaxMs, Math.max(minMs, REFUSED_MAX_MS)) : backoffMaxMs;
    return backoffMs({ minMs, maxMs }, rotation.failures - 1, random);
  }

  /**
   * Some endings are not faults by themselves (a refused start near the tip, data that does not match). They become
   * faults of the call when it keeps withholding the same due height, so that the other call is tried. A refusal for lack
   * of streams counts too: the other call may have free ones.
   */
  #faultOf(
    node: AccessNode,
    { kind }: StreamEnd,
    height: number,
    isFruitless: boolean,
  ): NodeFault | undefined {
    const isSame = this.#fruitless.node === node.name && this.#fruitless.height === height;
    const count = isFruitless ? (isSame ? this.#fruitless.count : 0) + 1 : 0;
    this.#fruitless = { node: node.name, height, count };
    const isDue = height <= (this.#dependencies.dueHeight() ?? -Infinity);
    return isDue && count >= FRUITLESS_STREAMS && kind !== undefined ? 'failing' : undefined;
  }
}
