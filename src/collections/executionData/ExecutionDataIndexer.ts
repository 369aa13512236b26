import { NodeRotation } from '../../access/index.js';
import type { AccessMethod, AccessNode, AccessNodes, NodeFault, NodeTrouble } from '../../access/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { backoffMs, childOf, doublingMs, isAbort, sleep, wasAborted } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { BlockWindow } from '../heights/Window.js';
import type { CollectionSink, ExecutionDataForecast } from '../ports.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import { EXECUTION_DATA, methodOf, usedMethod } from './BodyStream.js';
import type { BodyStream, StreamSources } from './BodyStream.js';
import { ExecutionDataReader } from './ExecutionDataReader.js';
import { ExecutionDataTroubles } from './ExecutionDataTroubles.js';
import type { StreamPosition } from './ExecutionDataTroubles.js';
import type { StreamEnd } from './StreamFault.js';
import { StreamState } from './StreamState.js';
import type { ExecutionDataStatus } from './StreamState.js';

export interface ExecutionDataIndexerOptions {
  /** The stream to follow. Default: execution data. */
  readonly stream?: BodyStream;
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
  readonly nodes: StreamSources & Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly window: BlockWindow;
  readonly sink: Pick<CollectionSink, 'onReceivedCollectionsForBlock'>;
  /** The highest height that the stream should have: for execution data the sealed head. `undefined` while unknown. */
  dueHeight(): number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections' | 'executionDataSkipped' | 'streamReopens'>;
}

/** Defaults. */
const DEFAULTS = {
  stream: EXECUTION_DATA,
  probeMs: 60_000,
  skipAheadHeights: 32,
  lookaheadHeights: 256,
  freshMs: 1_000,
} as const;

/** A new stream that delivers nothing is abandoned sooner than one that has delivered, at most twice in a row. */
const OPENING_SILENCE = { ms: 4_000, times: 2 };
/** After this many consecutive failures a new head no longer shortens the pause. */
const SHORT_PAUSES = 2;
/** Shortest pause that a new head can end. */
const WAKE_AFTER_MS = 1_000;
/** While no node serves the height or offers execution data: when the pool is checked again. At a start, nodes come one by one. */
const NO_NODE_RETRY = { minMs: 25, maxMs: 1_000 };

/** Longest pause after a node refused a stream for lack of capacity: other clients would take the next free one. */
const REFUSED_MAX_MS = 2_000;
/** Consecutive heights after which a stream counts as working: one that breaks after each height does not. */
const HEIGHTS_BEFORE_CONFIRMED = 3;
/** After this many streams in a row that delivered nothing for a due height, the node's call counts as failing. */
const FRUITLESS_STREAMS = 2;

/** A stream that was opened: by which call, and at which height. */
interface OpenedStream {
  readonly node: AccessNode;
  readonly method: AccessMethod;
  readonly height: number;
}

/**
 * EDI: follows the execution-data stream, or that of a peer, from just above the watermark, checks each block's
 * collections against its guarantees, and hands in whole blocks. It holds at most one message and reads the next one
 * only when that height's block has been handed out and the byte budget has room: back-pressure, never a drop
 * (onflow/flow-go#8114).
 *
 * Nothing a node does stops it. A stream that ends, stalls, lags, lies or is refused is reopened, on another node if
 * there is one; nodes without the feed are asked again every `probeMs` (default: a minute). The system chunk is
 * dropped. Blocks without collections are skipped: they are complete without us.
 *
 * A peer is another indexer. Its blocks are verified in the same way, and it is trusted no more than a node.
 */
export class ExecutionDataIndexer implements ExecutionDataForecast {
  readonly #options: Required<ExecutionDataIndexerOptions>;
  readonly #dependencies: ExecutionDataIndexerDependencies;
  readonly #reader: ExecutionDataReader;
  readonly #rotation = new NodeRotation();
  readonly #troubles: ExecutionDataTroubles;
  readonly #reporter: FaultReporter;
  readonly #state: StreamState;
  /** How often in a row no node could be asked. */
  #noneInARow = 0;
  #method: AccessMethod;
  /** Verified messages of the current stream. */
  #verified = 0;
  /** Consecutive streams of the same node that delivered nothing for the same height. */
  #fruitless = { node: '', height: 0, count: 0 };
  #isRefused = false;
  #lateError: { readonly error: unknown } | undefined;

  constructor(options: ExecutionDataIndexerOptions, dependencies: ExecutionDataIndexerDependencies) {
    this.#options = { ...DEFAULTS, ...options };
    this.#dependencies = dependencies;
    const { stream } = this.#options;
    this.#method = stream.method;
    this.#state = new StreamState(this.#options, dependencies.clock);
    this.#troubles = new ExecutionDataTroubles(stream, dependencies);
    this.#reporter = new FaultReporter({ source: stream.source }, dependencies);
    this.#reader = new ExecutionDataReader(this.#options, {
      ...dependencies,
      state: this.#state,
      onMessage: (node, isVerified, atMs) => this.#onMessage(node, isVerified, atMs),
      onLateError: (error) => (this.#lateError ??= { error }),
    });
  }

  /** Follows the stream until the signal aborts, then resolves. Rejects for bugs only. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#state.now !== 'off') throw new Error('the indexer of this stream is already running');
    this.#state.enter('connecting');
    try {
      while (!signal.aborted) {
        await this.#session(signal);
        if (this.#lateError !== undefined) throw this.#lateError.error;
      }
    } catch (error) {
      if (!wasAborted(error, signal)) throw error;
    } finally {
      this.#state.closed();
      this.#state.node = undefined;
      this.#state.enter('off');
    }
  }

  status(): ExecutionDataStatus {
    return this.#state.status(this.#position().next, this.#reader.waits.earlySinceMs);
  }

  /** Per node: why the next height is missing; empty while we wait for room, or for the height to be due. */
  troubles(): readonly NodeTrouble[] {
    return this.#state.now === 'off' ? [] : this.#troubles.all(this.#position());
  }

  /** Why nothing arrives, in one sentence; `undefined` while all is well. */
  trouble(): string | undefined {
    const { data, source, fix, stream } = this.#options.stream.words;
    if (this.#state.now === 'off') return `the ${stream} is not followed`;
    const sentence = this.#troubles.sentence(this.#position());
    return sentence ?? (this.#state.now === 'unavailable' ? `no ${source} offers ${data}${fix}` : undefined);
  }

  expects(height: number, withinMs: number): boolean {
    const due = this.#dependencies.dueHeight();
    if (due === undefined || height > due) return false;
    return this.#state.expects(height - this.#reader.next, withinMs);
  }

  /** From choosing a node to the end of its stream and the pause after it. */
  async #session(signal: AbortSignal): Promise<void> {
    await this.#reader.goToNext(signal);
    const node = await this.#choose(this.#reader.next, signal);
    if (node === undefined) return;
    this.#state.node = node;
    // Right after a failure, opening a stream is not a sign of life.
    if (this.#rotation.failures === 0) this.#state.alive();
    this.#method = methodOf(this.#options.stream, node);
    this.#verified = 0;
    const opened = { node, method: this.#method, height: this.#reader.next };
    const { silenceMs } = this.#options;
    const isShort = this.#rotation.failures < OPENING_SILENCE.times;
    const openingSilenceMs = isShort ? Math.min(OPENING_SILENCE.ms, silenceMs) : silenceMs;
    const end = await this.#reader.follow(node, { openingSilenceMs }, signal);
    this.#state.closed();
    const pauseMs = this.#onStreamEnd(opened, end);
    if (pauseMs > 0) await this.#pause(pauseMs, end, signal);
  }

  /** The node or peer whose stream to follow next; `undefined` after a pause when none could be asked. */
  async #choose(height: number, signal: AbortSignal): Promise<AccessNode | undefined> {
    const { clock, logger, nodes } = this.#dependencies;
    const { sources, whyNone, words } = this.#options.stream;
    const nowMs = clock.monotonic();
    const all = sources(nodes, height);
    const offering = all.filter((node) => this.#troubles.lacksUntilMs(node, height) <= nowMs);
    // Streams need neither a slot nor a rate-limit token: there is only one at a time.
    const choice = this.#rotation.choose(offering, {
      isFree: () => true,
      delayMs: () => 0,
      healthOf: (node) => node.healthOf(methodOf(this.#options.stream, node)),
    });
    if (choice.node !== undefined) {
      this.#noneInARow = 0;
      return choice.node;
    }
    const retryMs = doublingMs(NO_NODE_RETRY, this.#noneInARow++);
    this.#state.node = undefined;
    if (all.length === 0) {
      const why = whyNone?.(nodes);
      this.#state.lastError = why ?? `no ${words.source} serves the next height`;
      this.#troubles.noNode(why);
      await sleep(clock, retryMs, signal);
      return undefined;
    }
    if (this.#state.now !== 'unavailable') logger.info({ height }, `no ${words.source} offers ${words.data}`);
    this.#state.enter('unavailable');
    // Another node may become available before one of these may be asked again.
    const untilMs = all.map((node) => this.#troubles.lacksUntilMs(node, height));
    const askAgainInMs = Math.min(...untilMs) - nowMs;
    await sleep(clock, Math.min(askAgainInMs, retryMs), signal);
    return undefined;
  }

  /**
   * Pauses before the next stream. Ends early when only one height failed and another source has delivered it since, or
   * when the node was unreachable and a new head shows that some node is reachable.
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

  #onMessage(node: AccessNode, isVerified: boolean, receivedAtMs: number): void {
    this.#state.came(this.#reader.next - 1, receivedAtMs);
    this.#credit(node, isVerified);
    if (this.#state.now === 'streaming') return;
    const { stream } = this.#options.stream.words;
    const fields = { node: node.name, height: this.#reader.next - 1 };
    this.#dependencies.logger.info(fields, `${stream} is delivering`);
    this.#state.enter('streaming');
  }

  #credit(node: AccessNode, isVerified: boolean): void {
    this.#isRefused = false;
    this.#troubles.came(node);
    if (!isVerified) return;
    this.#rotation.succeeded();
    this.#verified += 1;
    if (this.#verified >= HEIGHTS_BEFORE_CONFIRMED)
      this.#reporter.succeeded(node, usedMethod(this.#options.stream, node, this.#method));
  }

  /** Blames the node, if it is to blame. Returns the pause before the next stream. */
  #onStreamEnd({ node, method: opened, height }: OpenedStream, end: StreamEnd): number {
    const { clock, metrics, random, window } = this.#dependencies;
    const { backoffMinMs: minMs, backoffMaxMs, probeMs, stream } = this.#options;
    this.#state.lastError = end.text;
    if (end.reason === 'unimplemented') {
      // A missing fallback says nothing about the call itself.
      if (opened !== stream.fallback) this.#troubles.offersNone(node, end.said, probeMs);
      return 0;
    }
    this.#state.enter('connecting');
    const { next } = this.#reader;
    const method = end.method ?? usedMethod(stream, node, opened);
    metrics.streamReopens.inc({ stream: stream.label, reason: end.reason });
    this.#troubles.ended(node, method, next, end);
    const isLie = end.contradicts !== undefined && window.isCertain(next, end.contradicts);
    const fault = isLie ? 'lied' : (end.fault ?? this.#faultOf(node, end, next, next === height));
    this.#reporter.report(node, method, { ...end, fault }, next, { reason: end.reason });
    if (this.#troubles.lacksUntilMs(node, next) > clock.monotonic()) return 0;
    this.#warnOfRefusal(node, end);
    this.#rotation.failed(node);
    const isBusy = end.reason === 'rate_limited';
    const maxMs = isBusy ? Math.min(backoffMaxMs, Math.max(minMs, REFUSED_MAX_MS)) : backoffMaxMs;
    return backoffMs({ minMs, maxMs }, this.#rotation.failures - 1, random);
  }

  /** Once, until a message arrives or a stream ends for another reason. */
  #warnOfRefusal(node: AccessNode, { reason, said }: StreamEnd): void {
    const { source, stream } = this.#options.stream.words;
    const isRefused = reason === 'rate_limited' || reason === 'unauthenticated';
    if (isRefused && !this.#isRefused)
      this.#dependencies.logger.warn({ node: node.name, error: said }, `${source} refused the ${stream}`);
    this.#isRefused = isRefused;
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

  #position(): StreamPosition {
    const { window } = this.#dependencies;
    return {
      next: Math.max(this.#reader.next, window.latestIndexedHeight() + 1),
      node: this.#state.node?.name,
      method: this.#method,
      due: this.#dependencies.dueHeight(),
      ...this.#reader.waits,
    };
  }
}
