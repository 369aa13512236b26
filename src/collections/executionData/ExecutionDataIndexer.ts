import { NodeRotation } from '../../access/index.js';
import type {
  AccessMethod,
  AccessNode,
  AccessNodes,
  NodeFault,
  NodeReadiness,
  NodeTrouble,
} from '../../access/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { backoffMs, childOf, isAbort, sleep, wasAborted } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { DeliveryForecast } from './DeliveryForecast.js';
import { ExecutionDataReader } from './ExecutionDataReader.js';
import { ExecutionDataTroubles } from './ExecutionDataTroubles.js';
import type { StreamPosition } from './ExecutionDataTroubles.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import type { BlockWindow, CollectionSink, ExecutionDataForecast } from '../ports.js';
import type { StreamEnd } from './StreamFault.js';

/** The call that is used while it is known and works, and its fallback. */
const CURRENT = 'SubscribeExecutionDataFromStartBlockHeight';
const DEPRECATED = 'SubscribeExecutionData';

export interface ExecutionDataIndexerOptions {
  /** How long due data may be missing before the stream is reopened. */
  readonly silenceMs: number;
  /** Pause before the stream is reopened: doubles from here … */
  readonly backoffMinMs: number;
  /** … up to here. */
  readonly backoffMaxMs: number;
  /** How often a node without execution data is asked again whether it offers any. */
  readonly probeMs?: number;
  /** Durable heights the stream may be behind the watermark before it is reopened above it. */
  readonly skipAheadHeights?: number;
  /** Most heights ahead of the stream that may be expected from it, however fast it is. */
  readonly lookaheadHeights?: number;
  /** How long after its last sign of life a stream is still expected to deliver. */
  readonly freshMs?: number;
}

export interface ExecutionDataIndexerDependencies {
  readonly nodes: Pick<AccessNodes, 'forExecutionData' | 'succeeded' | 'report'>;
  readonly window: BlockWindow;
  readonly sink: Pick<CollectionSink, 'onReceivedCollectionsForBlock' | 'onContradiction'>;
  /** The sealed head: execution data exists up to there. `undefined` while unknown. */
  sealedHeight(): number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections' | 'executionDataSkipped' | 'streamReopens'>;
}

/** An opened stream. */
interface Opened {
  readonly node: AccessNode;
  readonly method: AccessMethod;
  readonly height: number;
}

/** The state of the execution-data stream. */
export type ExecutionDataState =
  /** Not running. */
  | 'off'
  /** Being opened, or pausing between two attempts; `lastError` has the last failure. */
  | 'connecting'
  /** Delivering, or waiting for the next block to be sealed. */
  | 'streaming'
  /** Paused by us: it is ahead of the window or of the blocks handed out, or the byte budget is used up. */
  | 'waiting_window'
  /** No node offers execution data, or none for the next height. */
  | 'unavailable';

/** A snapshot of the stream. */
export interface ExecutionDataStatus {
  readonly state: ExecutionDataState;
  readonly stateAgeMs: number;
  readonly node: string | undefined;
  readonly nextHeight: number;
  /** The height of the last message; `undefined` before the first. */
  readonly lastHeight: number | undefined;
  /** Since the last message of any stream. */
  readonly lastMessageAgeMs: number | undefined;
  /** What ended the last stream; cleared by the next message. */
  readonly lastError: string | undefined;
  /** How long it has waited for the next height to be sealed; `undefined` when not waiting. */
  readonly unsealedMs: number | undefined;
}

/** Values that need no setting. */
const EXECUTION_DATA_DEFAULTS = {
  probeMs: 60_000,
  skipAheadHeights: 32,
  lookaheadHeights: 256,
  freshMs: 1_000,
} as const;

/** While no node serves the height or offers execution data: how often the pool is checked again. */
const NO_NODE_RETRY_MS = 1_000;

/** Longest pause after a node refused a stream for lack of capacity: others would take the next free one. */
const REFUSED_MAX_MS = 2_000;
/** A new stream that brings nothing is abandoned sooner than one that has delivered, at most twice in a row. */
const OPENING_SILENCE = { ms: 4_000, times: 2 };
/** Consecutive heights after which a stream counts as working: one that breaks after each height does not. */
const HEIGHTS_BEFORE_PRAISE = 3;
/** After this many consecutive failures a new head no longer shortens the pause. */
const SHORT_PAUSES = 2;
/** Shortest pause that a new head can end. */
const WAKE_AFTER_MS = 1_000;

/** Streams need neither a slot nor a rate-limit token: there is only one at a time. */
const ALWAYS_READY: NodeReadiness = {
  isFree: () => true,
  delayMs: () => 0,
  healthOf: (node) => node.healthOf(methodOf(node)),
};

/**
 * EDI: follows the execution-data stream from just above the watermark, checks each block's collections against its
 * guarantees, and hands in whole blocks. It holds at most one message and reads the next one only when that height's
 * block has been handed out and the byte budget has room: back-pressure, never a drop (onflow/flow-go#8114).
 *
 * Nothing a node does stops it. A stream that ends, stalls, lags, lies or is refused is reopened, on another node if
 * there is one; nodes without the feed are asked again every `probeMs` (default: a minute). The system chunk is
 * dropped. Blocks without collections are skipped: they are complete without us.
 */
export class ExecutionDataIndexer implements ExecutionDataForecast {
  readonly #options: Required<ExecutionDataIndexerOptions>;
  readonly #dependencies: ExecutionDataIndexerDependencies;
  readonly #reader: ExecutionDataReader;
  readonly #outlook: DeliveryForecast;
  readonly #reporter: FaultReporter;
  readonly #rotation = new NodeRotation();
  readonly #troubles: ExecutionDataTroubles;
  /** Verified messages of the current stream. */
  #verified = 0;
  /** Consecutive streams that brought nothing for the same height of the same node. */
  #fruitless = { node: '', height: 0, count: 0 };
  #isRefused = false;
  #method: AccessMethod = CURRENT;
  #state: ExecutionDataState = 'off';
  #stateSinceMs: number;
  #resumedState: ExecutionDataState = 'connecting';
  #node: AccessNode | undefined;
  #lastMessageAtMs: number | undefined;
  #lastHeight: number | undefined;
  #lastError: string | undefined;
  #lateError: { readonly error: unknown } | undefined;

  constructor(options: ExecutionDataIndexerOptions, dependencies: ExecutionDataIndexerDependencies) {
    this.#options = { ...EXECUTION_DATA_DEFAULTS, ...options };
    this.#dependencies = dependencies;
    this.#stateSinceMs = dependencies.clock.monotonic();
    this.#outlook = new DeliveryForecast(this.#options, dependencies);
    this.#troubles = new ExecutionDataTroubles(dependencies);
    this.#reporter = new FaultReporter({ source: 'edi' }, dependencies);
    this.#reader = new ExecutionDataReader(this.#options, {
      nodes: dependencies.nodes,
      window: dependencies.window,
      sink: dependencies.sink,
      sealedHeight: () => dependencies.sealedHeight(),
      outlook: this.#outlook,
      clock: dependencies.clock,
      metrics: dependencies.metrics,
      events: {
        onMessage: (node, isVerified, atMs) => this.#onMessage(node, isVerified, atMs),
        onWaiting: (isWaiting) => this.#onWaiting(isWaiting),
        onLook: () => {
          // Not refused for a whole check interval: the node has the feed.
          if (this.#state === 'unavailable') this.#enter('connecting');
        },
        onLateError: (error) => (this.#lateError ??= { error }),
      },
    });
  }

  /** Follows the stream until the signal aborts, then resolves. Rejects for bugs only. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#state !== 'off') throw new Error('the execution-data indexer is already running');
    this.#enter('connecting');
    try {
      while (!signal.aborted) {
        await this.#session(signal);
        if (this.#lateError !== undefined) throw this.#lateError.error;
      }
    } catch (error) {
      if (!wasAborted(error, signal)) throw error;
    } finally {
      this.#outlook.closed();
      this.#node = undefined;
      this.#enter('off');
    }
  }

  status(): ExecutionDataStatus {
    const nowMs = this.#dependencies.clock.monotonic();
    const sinceMs = this.#reader.waits.unsealedSinceMs;
    return {
      state: this.#state,
      stateAgeMs: nowMs - this.#stateSinceMs,
      node: this.#node?.name,
      nextHeight: this.#position().next,
      lastHeight: this.#lastHeight,
      lastMessageAgeMs: this.#lastMessageAtMs === undefined ? undefined : nowMs - this.#lastMessageAtMs,
      lastError: this.#lastError,
      unsealedMs: sinceMs === undefined ? undefined : nowMs - sinceMs,
    };
  }

  /** By node: why the next height's execution data is missing; empty while we wait for room or for the seal. */
  troubles(): readonly NodeTrouble[] {
    return this.#state === 'off' ? [] : this.#troubles.all(this.#position());
  }

  /** Why no execution data arrives, in one sentence; `undefined` while all is well. */
  trouble(): string | undefined {
    if (this.#state === 'off') return 'the execution-data stream is not followed';
    const sentence = this.#troubles.sentence(this.#position());
    return sentence ?? (this.#state === 'unavailable' ? 'no access node offers execution data' : undefined);
  }

  expects(height: number, withinMs: number): boolean {
    const sealed = this.#dependencies.sealedHeight();
    if (sealed === undefined || height > sealed) return false;
    return this.#outlook.expects(height - this.#reader.next, withinMs, this.#state === 'waiting_window');
  }

  /** From choosing a node to the end of its stream and the pause after it. */
  async #session(signal: AbortSignal): Promise<void> {
    await this.#reader.goToNext(signal);
    const node = await this.#chooseNode(signal);
    if (node === undefined) return;
    this.#node = node;
    // Right after a failure, opening a stream is not a sign of life.
    if (this.#rotation.failures === 0) this.#outlook.alive();
    this.#method = methodOf(node);
    this.#verified = 0;
    const opened = { node, method: this.#method, height: this.#reader.next };
    const { silenceMs } = this.#options;
    const isShort = this.#rotation.failures < OPENING_SILENCE.times;
    const openingSilenceMs = isShort ? Math.min(OPENING_SILENCE.ms, silenceMs) : silenceMs;
    const end = await this.#reader.follow(node, { openingSilenceMs }, signal);
    this.#outlook.closed();
    const pauseMs = this.#onStreamEnd(opened, end);
    if (pauseMs > 0) await this.#pause(pauseMs, end, signal);
  }

  /**
   * Pauses before the next stream. Cut short when only one height failed and has since arrived otherwise, or when the
   * node was unreachable and a new head shows that some node can be reached.
   */
  async #pause(pauseMs: number, end: StreamEnd, signal: AbortSignal): Promise<void> {
    const { clock, window } = this.#dependencies;
    const startedMs = clock.monotonic();
    const head = window.headHeight();
    const isOutage = end.reason === 'unavailable' || end.reason === 'deadline';
    const over = childOf(signal);
    const timer = clock.setTimer(pauseMs, () => over.abort());
    try {
      for (;;) {
        await window.changed(over.signal);
        const elapsedMs = clock.monotonic() - startedMs;
        const isPassed = this.#rotation.failures <= SHORT_PAUSES && window.isIndexed(this.#reader.next);
        const isBack = isOutage && window.headHeight() > head && elapsedMs >= WAKE_AFTER_MS;
        if ((isPassed && elapsedMs >= this.#options.backoffMinMs) || isBack) break;
      }
    } catch (error) {
      if (!isAbort(error) || signal.aborted) throw error;
    } finally {
      timer.cancel();
      over.abort();
    }
    this.#reader.skipDurable();
  }

  /** `undefined` after a pause when no node could be asked. */
  async #chooseNode(signal: AbortSignal): Promise<AccessNode | undefined> {
    const { clock, logger, nodes } = this.#dependencies;
    const nowMs = clock.monotonic();
    const height = this.#reader.next;
    const all = nodes.forExecutionData(height);
    const offering = all.filter((node) => this.#troubles.lacksUntilMs(node, height) <= nowMs);
    const choice = this.#rotation.choose(offering, ALWAYS_READY);
    if (choice.node !== undefined) return choice.node;
    this.#node = undefined;
    if (all.length === 0) {
      this.#lastError = 'no access node serves the next height';
      this.#troubles.noNode();
      await sleep(clock, NO_NODE_RETRY_MS, signal);
      return undefined;
    }
    if (this.#state !== 'unavailable') logger.info({ height }, 'no access node offers execution data');
    this.#enter('unavailable');
    // Another node may come up before one of these may be asked again.
    const untilMs = all.map((node) => this.#troubles.lacksUntilMs(node, height));
    const askAgainInMs = Math.min(...untilMs) - nowMs;
    await sleep(clock, Math.min(askAgainInMs, NO_NODE_RETRY_MS), signal);
    return undefined;
  }

  #onMessage(node: AccessNode, isVerified: boolean, receivedAtMs: number): void {
    this.#lastMessageAtMs = receivedAtMs;
    this.#lastHeight = this.#reader.next - 1;
    this.#lastError = undefined;
    this.#isRefused = false;
    this.#troubles.came(node);
    if (isVerified) {
      this.#rotation.succeeded();
      this.#verified += 1;
      if (this.#verified >= HEIGHTS_BEFORE_PRAISE)
        this.#reporter.succeeded(node, this.#usedMethod(node, this.#method));
    }
    if (this.#state === 'streaming') return;
    const { logger } = this.#dependencies;
    logger.info({ node: node.name, height: this.#reader.next - 1 }, 'execution-data stream is delivering');
    this.#enter('streaming');
  }

  #onWaiting(isWaiting: boolean): void {
    if (isWaiting) this.#resumedState = this.#state;
    this.#enter(isWaiting ? 'waiting_window' : this.#resumedState);
  }

  /** Returns the pause before the next stream. */
  #onStreamEnd({ node, method: opened, height }: Opened, end: StreamEnd): number {
    const { clock, logger, metrics, random } = this.#dependencies;
    const method = end.method ?? this.#usedMethod(node, opened);
    this.#lastError = end.text;
    if (end.reason === 'unimplemented') {
      // It was only the fallback.
      if (opened === DEPRECATED) return 0;
      this.#troubles.offersNone(node, end.said, this.#options.probeMs);
      return 0;
    }
    const next = this.#reader.next;
    this.#enter('connecting');
    metrics.streamReopens.inc({ stream: 'execution_data', reason: end.reason });
    this.#troubles.ended(node, method, next, end);
    const fault = end.fault ?? this.#faultOf(node, end, next === height);
    this.#reporter.report(node, method, { ...end, fault }, next, { reason: end.reason });
    if (end.contradicts === true) this.#dependencies.sink.onContradiction(next, node, end.said);
    if (this.#troubles.lacksUntilMs(node, next) > clock.monotonic()) return 0;
    const isRefused = end.reason === 'rate_limited';
    if (isRefused && !this.#isRefused) {
      logger.warn({ node: node.name, error: end.said }, 'access node refused the execution-data stream');
    }
    this.#isRefused = isRefused;
    this.#rotation.failed(node);
    const { backoffMinMs: minMs, backoffMaxMs } = this.#options;
    const maxMs = isRefused ? Math.min(backoffMaxMs, Math.max(minMs, REFUSED_MAX_MS)) : backoffMaxMs;
    return backoffMs({ minMs, maxMs }, this.#rotation.failures - 1, random);
  }

  /**
   * Some endings are not faults by themselves (a refused start near the tip, data that does not match). They become
   * faults of the call when it keeps withholding the same sealed height, because there is another call. A refusal for
   * lack of streams counts too: the other call may have some.
   */
  #faultOf(node: AccessNode, { kind }: StreamEnd, isFruitless: boolean): NodeFault | undefined {
    const height = this.#reader.next;
    const isSame = this.#fruitless.node === node.name && this.#fruitless.height === height;
    const count = isFruitless ? (isSame ? this.#fruitless.count : 0) + 1 : 0;
    this.#fruitless = { node: node.name, height, count };
    const isDue = height <= (this.#dependencies.sealedHeight() ?? -Infinity);
    return isDue && count >= 2 && kind !== undefined ? 'failing' : undefined;
  }

  /** A node that does not know the current call was asked by the deprecated one at once. */
  #usedMethod(node: AccessNode, opened: AccessMethod): AccessMethod {
    return opened === CURRENT ? methodOf(node) : opened;
  }

  #position(): StreamPosition {
    const { window } = this.#dependencies;
    return {
      next: Math.max(this.#reader.next, window.latestIndexedHeight() + 1),
      node: this.#node?.name,
      method: this.#method,
      sealed: this.#dependencies.sealedHeight(),
      ...this.#reader.waits,
    };
  }

  #enter(state: ExecutionDataState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#stateSinceMs = this.#dependencies.clock.monotonic();
  }
}

/** The call to use with a node: the deprecated one while the current one is resting or unknown to it. */
function methodOf(node: AccessNode): typeof CURRENT | typeof DEPRECATED {
  return !node.supports(CURRENT) && node.supports(DEPRECATED) ? DEPRECATED : CURRENT;
}
