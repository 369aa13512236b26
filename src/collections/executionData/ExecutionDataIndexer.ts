import { Attempts, readStream, SLACK_HEIGHTS } from '../../access/index.js';
import type { AccessNode, AccessNodes } from '../../access/index.js';
import { VerificationMemory, verifyBlockCollections } from '../../flow/index.js';
import type { BlockExecutionData } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { childOf, doublingMs, RunningAverage, sleep, wasAborted, within } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { Window } from '../heights/Window.js';
import type { CollectionSink } from '../ports.js';
import { faultReporter } from '../faultReporter.js';
import { EXECUTION_DATA, methodOf, type BodyStream, type StreamSources } from './BodyStream.js';
import { givenUp, streamEndBy, type StreamEnd } from './streamEnd.js';
import { StreamState } from './StreamState.js';

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
  /** Most heights ahead of the stream that may be expected from it, however fast it is. */
  readonly lookaheadHeights: number;
  /** How long after its last sign of life a stream is still expected to deliver. */
  readonly freshMs?: number;
}

export interface ExecutionDataIndexerDependencies {
  readonly nodes: StreamSources & Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly window: Window;
  readonly sink: Pick<CollectionSink, 'onReceivedCollectionsForBlock'>;
  /** The highest height that the stream should have: for execution data the sealed head. `undefined` while unknown. */
  dueHeight(): number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections' | 'executionDataSkipped' | 'streamReopens'>;
}

const DEFAULTS = { stream: EXECUTION_DATA, probeMs: 60_000, freshMs: 1_000 } as const;

/** After this many consecutive failures a new head no longer shortens the pause. */
const SHORT_PAUSES = 2;
/** Shortest pause that a new head can end. */
const WAKE_AFTER_MS = 1_000;
/** Pauses between checks of the pool while no node can be asked for the stream. At a start, nodes come one by one. */
const NO_NODE_RETRY = { minMs: 25, maxMs: 1_000 };

/** Longest pause after a node refused a stream for lack of capacity: other clients would take the next free one. */
const REFUSED_MAX_MS = 2_000;
/** Consecutive heights after which a stream counts as working: one that breaks after each height does not. */
const HEIGHTS_BEFORE_CONFIRMED = 3;
/** After this many streams in a row that did not deliver a due height, the node's call counts as failing. */
const FRUITLESS_STREAMS = 2;

/** Size of one message, trie updates included: the bounds of the estimate used for admission. */
const MESSAGE_BYTES = { weight: 1 / 16, initial: 64 * 1024, min: 1024, max: 64 * 1024 * 1024 };

/**
 * The block at height 0 is a root block and has no collections. Older nodes also treat a start height of 0 as "not
 * given", and begin at their sealed head.
 */
const LOWEST_HEIGHT = 1;

/**
 * Bytes verified before yielding to the event loop, so that keepalives and responses wait no longer than that
 * (docs/decisions/0014-messages-per-turn.md). Empty messages count too.
 */
const TURN_BYTES = 256 * 1024;
const MESSAGE_WEIGHT_BYTES = 2 * 1024;

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
export class ExecutionDataIndexer {
  readonly #options: Required<ExecutionDataIndexerOptions>;
  readonly #dependencies: ExecutionDataIndexerDependencies;
  readonly #attempts = new Attempts();
  readonly #reporter: ReturnType<typeof faultReporter>;
  readonly state: StreamState;
  readonly #messageBytes = new RunningAverage(MESSAGE_BYTES);
  readonly #verificationMemory = new VerificationMemory();
  #turnBytes = 0;
  /** How often in a row no node could be asked. */
  #noneInARow = 0;
  /** Verified messages of the current stream. */
  #verified = 0;
  #isRefused = false;

  constructor(options: ExecutionDataIndexerOptions, dependencies: ExecutionDataIndexerDependencies) {
    this.#options = { ...DEFAULTS, ...options };
    this.#dependencies = dependencies;
    const { stream } = this.#options;
    this.state = new StreamState({ ...this.#options, ...dependencies });
    this.#reporter = faultReporter(stream.source, dependencies);
  }

  /** Follows the stream until the signal aborts, then resolves. Rejects for bugs only. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.state.now !== 'off') throw new Error('the indexer of this stream is already running');
    this.state.now = 'connecting';
    try {
      while (!signal.aborted) await this.#session(signal);
    } catch (error) {
      if (!wasAborted(error, signal)) throw error;
    } finally {
      this.state.node = undefined;
      this.state.now = 'off';
    }
  }

  /** From choosing a node to the end of its stream and the pause after it. */
  async #session(signal: AbortSignal): Promise<void> {
    const state = this.state;
    await this.#goToNext(signal);
    const node = await this.#choose(signal);
    if (node === undefined) return;
    state.node = node;
    state.method = methodOf(this.#options.stream, node);
    // Right after a failure, opening a stream is not a sign of life.
    if (this.#attempts.failures === 0) state.alive();
    this.#verified = 0;
    const end = await this.#follow(node, signal);
    const pauseMs = this.#onStreamEnd(node, end);
    if (pauseMs > 0) await this.#pause(pauseMs, end, signal);
  }

  /** The node or peer whose stream to follow next; `undefined` after a pause when none could be asked. */
  async #choose(signal: AbortSignal): Promise<AccessNode | undefined> {
    const { clock, logger, nodes } = this.#dependencies;
    const { sources, whyNone, words } = this.#options.stream;
    const state = this.state;
    const nowMs = clock.monotonic();
    const all = sources(nodes, state.next);
    const { node } = this.#attempts.choose(
      all.filter((each) => state.lacksUntilMs(each) <= nowMs),
      (each) => each.healthOf(methodOf(this.#options.stream, each)),
    );
    if (node !== undefined) {
      this.#noneInARow = 0;
      return node;
    }
    // Another node may become available before one of these may be asked again.
    const askAgainInMs = Math.min(...all.map((each) => state.lacksUntilMs(each))) - nowMs;
    const retryMs = doublingMs(NO_NODE_RETRY, this.#noneInARow++);
    if (all.length === 0) state.noNode(whyNone?.(nodes));
    else {
      state.node = undefined;
      if (state.now !== 'unavailable')
        logger.info({ height: state.next }, `no ${words.source} offers ${words.data}`);
      state.now = 'unavailable';
    }
    await sleep(clock, Math.min(askAgainInMs, retryMs), signal);
    return undefined;
  }

  /**
   * Pauses before the next stream. Ends early when only one height failed and another source has delivered it since, or
   * when the node was unreachable and a new head shows that some node is reachable.
   */
  async #pause(pauseMs: number, { reason }: StreamEnd, signal: AbortSignal): Promise<void> {
    const { clock, window } = this.#dependencies;
    const isOutage = reason === 'unavailable' || reason === 'deadline';
    const beganAtMs = clock.monotonic();
    const head = window.target() ?? 0;
    // One signal for the whole pause: the window may change at each height.
    const over = childOf(signal);
    const early = async (): Promise<void> => {
      for (;;) {
        const ms = clock.monotonic() - beganAtMs;
        const isPassed = this.#attempts.failures <= SHORT_PAUSES && window.isIndexed(this.state.next);
        const isBack = isOutage && (window.target() ?? 0) > head;
        if ((isPassed && ms >= this.#options.backoffMinMs) || (isBack && ms >= WAKE_AFTER_MS)) return;
        await window.changed(over.signal);
      }
    };
    await within(clock, pauseMs, early()).finally(() => over.abort());
  }

  /** Waits until there is a height to open a stream at, and moves there. Expected errors: the abort reason. */
  async #goToNext(signal: AbortSignal): Promise<void> {
    const { window } = this.#dependencies;
    for (;;) {
      this.state.next = Math.max(this.state.next, window.latestIndexedHeight() + 1, LOWEST_HEIGHT);
      while (window.isIndexed(this.state.next)) this.state.next += 1;
      if (this.state.next <= window.upperBound()) return;
      await window.changed(signal);
    }
  }

  /**
   * Reads one stream until something ends it. The signal must not be aborted yet. Expected errors: its abort reason.
   */
  async #follow(node: AccessNode, signal: AbortSignal): Promise<StreamEnd> {
    const { clock } = this.#dependencies;
    const { stream } = this.#options;
    const state = this.state;
    const reader = readStream<BlockExecutionData>({
      open: (ended) => stream.open(node, state.next, { signal: ended }),
      clock,
      signal,
      limitMs: state.opened(),
    });
    let justPaused = false;
    let isLate = false;
    let end: StreamEnd | undefined;
    try {
      while (end === undefined) {
        if (!isLate) {
          // Checked without yielding before the read: another stream may just have used up the budget.
          justPaused = !this.#hasRoom();
          if (justPaused) await this.#whenRoom(signal);
          state.pulling();
        }
        const read = await reader.read();
        isLate = read === 'silent';
        if (read === 'silent') {
          // The stream has been open for a while: the node has the feed.
          if (state.now === 'unavailable') state.now = 'connecting';
          end = state.silence() ?? state.slowness() ?? this.#behind() ?? this.#moved(node);
        } else if (read.done === true) end = givenUp('ended', 'the node ended the stream');
        else {
          const message = read.value;
          end = this.#take(message, node) ?? this.#behind() ?? state.slowness();
          this.#turnBytes += message.byteLength + MESSAGE_WEIGHT_BYTES;
          if (this.#turnBytes < TURN_BYTES) continue;
          this.#turnBytes = 0;
          await sleep(clock, 0, signal);
        }
      }
    } catch (error) {
      end = streamEndBy(error);
      if (end === undefined) throw error;
    } finally {
      state.closed();
      reader.cancel();
    }
    // A node drops a consumer that does not read for about 30 s: then the fault is ours.
    const isOurs = justPaused && end.refused === undefined;
    return isOurs ? { ...end, fault: undefined } : end;
  }

  async #whenRoom(signal: AbortSignal): Promise<void> {
    const state = this.state;
    const { now } = state;
    state.now = 'waiting_window';
    do await this.#dependencies.window.changed(signal);
    while (!this.#hasRoom());
    state.now = now;
    state.rested();
  }

  /** Durable heights are read only to be skipped; others need their block and room for their bytes. */
  #hasRoom(): boolean {
    const { window } = this.#dependencies;
    const height = this.state.next;
    if (window.isIndexed(height)) return true;
    if (height > window.upperBound() || window.blockAt(height) === undefined) return false;
    return window.admits(height, this.#messageBytes.value ?? 0);
  }

  /** Returns why the stream is given up because of this message, if it is. */
  #take(message: BlockExecutionData, node: AccessNode): StreamEnd | undefined {
    const { clock, metrics, sink, window } = this.#dependencies;
    const { height } = message;
    const receivedAtMs = clock.monotonic();
    if (height !== this.state.next)
      return givenUp('malformed', `malformed: expected height ${this.state.next}, got ${height}`);
    this.#messageBytes.observe(message.byteLength);
    const block = window.isIndexed(height) ? undefined : window.blockAt(height);
    if (block === undefined) metrics.executionDataSkipped.inc();
    else {
      try {
        const collections = verifyBlockCollections(block, message, this.#verificationMemory);
        const { source } = this.#options.stream;
        const received = collections.map((collection) => ({ collection, source, receivedAtMs }));
        // One without collections is complete already.
        if (received.length > 0) sink.onReceivedCollectionsForBlock(height, received);
      } catch (error) {
        const end = streamEndBy(error);
        if (end === undefined) throw error;
        // Above the end of its spork a node may hold blocks that the next spork discarded: that is not a lie.
        return this.#moved(node) ?? end;
      }
    }
    this.#onMessage(node, block !== undefined, receivedAtMs);
    return undefined;
  }

  #behind(): StreamEnd | undefined {
    const behind = this.#dependencies.window.latestIndexedHeight() + 1 - this.state.next;
    if (behind <= SLACK_HEIGHTS) return undefined;
    return givenUp('skip_ahead', `the stream is ${behind} heights behind the watermark`);
  }

  #moved(node: AccessNode): StreamEnd | undefined {
    const serving = this.#options.stream.sources(this.#dependencies.nodes, this.state.next);
    if (serving.length === 0 || serving.some(({ name }) => name === node.name)) return undefined;
    return givenUp('moved', 'other nodes serve the heights that follow');
  }

  #onMessage(node: AccessNode, isVerified: boolean, receivedAtMs: number): void {
    const state = this.state;
    const fields = { node: node.name, height: state.next };
    state.arrived(node, receivedAtMs);
    this.#isRefused = false;
    if (isVerified) {
      this.#attempts.succeeded();
      this.#verified += 1;
      if (this.#verified >= HEIGHTS_BEFORE_CONFIRMED) this.#reporter.succeeded(node, state.method);
    }
    if (state.now === 'streaming') return;
    this.#dependencies.logger.info(fields, `${this.#options.stream.words.stream} is delivering`);
    state.now = 'streaming';
  }

  /** Blames the node, if it is to blame. Returns the pause before the next stream. */
  #onStreamEnd(node: AccessNode, end: StreamEnd): number {
    const { clock, logger, metrics, random, window } = this.#dependencies;
    const { backoffMinMs: minMs, backoffMaxMs, probeMs, stream } = this.#options;
    const { words } = stream;
    const { method: opened, next } = this.state;
    if (end.reason === 'unimplemented') {
      // The other call may be there, and is opened at once.
      const other = methodOf(stream, node);
      if (other !== opened && node.supports(other)) return 0;
      this.state.offersNone(node, end.text, probeMs);
      return 0;
    }
    this.state.now = 'connecting';
    const method = end.method ?? opened;
    metrics.streamReopens.inc({ stream: stream.label, reason: end.reason });
    const isWithheld = this.state.ended(node, method, end) >= FRUITLESS_STREAMS;
    const isLie = end.contradicts !== undefined && window.isCertain(next, end.contradicts);
    // Some endings alone are no faults (a refused start near the tip, data that does not match, no free stream). They are
    // faults of the call once it keeps withholding a height that is due, so that the other call is tried.
    const fault = isLie ? 'lied' : (end.fault ?? (isWithheld ? 'failing' : undefined));
    this.#reporter.report(node, method, { ...end, fault }, next, { reason: end.reason });
    if (this.state.lacksUntilMs(node) > clock.monotonic()) return 0;
    // Logged once, until a message arrives or a stream ends for another reason.
    const isRefused = end.reason === 'rate_limited' || end.reason === 'unauthenticated';
    if (isRefused && !this.#isRefused)
      logger.warn({ node: node.name, error: end.text }, `${words.source} refused the ${words.stream}`);
    this.#isRefused = isRefused;
    this.#attempts.failed(node);
    const isBusy = end.reason === 'rate_limited';
    const maxMs = isBusy ? Math.min(backoffMaxMs, Math.max(minMs, REFUSED_MAX_MS)) : backoffMaxMs;
    return this.#attempts.pauseMs({ minMs, maxMs }, random);
  }
}
