import type { AccessNode, AccessNodes } from '../access/index.js';
import type { Logger, Metrics } from '../observability/index.js';
import { backoffMs, isAbort, sleep } from '../runtime/index.js';
import type { Clock, Random } from '../runtime/index.js';
import { DeliveryOutlook } from './DeliveryOutlook.js';
import { ExecutionDataReader } from './ExecutionDataReader.js';
import { FaultReporter } from './FaultReporter.js';
import { NodeRotation } from './NodeRotation.js';
import type { NodeReadiness } from './NodeRotation.js';
import type { BlockWindow, CollectionSink, ExecutionDataOutlook } from './ports.js';
import type { StreamEnd } from './streamFault.js';

/** The call that is blamed and praised. */
const EXECUTION_DATA = 'SubscribeExecutionDataFromStartBlockHeight';

export interface ExecutionDataIndexerOptions {
  /** How long data that is due may fail to come before the stream is opened again. */
  readonly silenceMs: number;
  /** Pause before the stream is opened again: doubles from here … */
  readonly backoffMinMs: number;
  /** … up to here. */
  readonly backoffMaxMs: number;
  /** How often a node that does not offer execution data is asked again whether it does. */
  readonly probeMs?: number;
  /** Durable heights the stream may be behind the watermark before it is opened again above it. */
  readonly skipAheadHeights?: number;
  /** Heights ahead of the stream for which it may be counted on at most, however fast it is. */
  readonly lookaheadHeights?: number;
  /** How long after its last sign of life the stream is counted on. */
  readonly freshMs?: number;
}

export interface ExecutionDataIndexerDependencies {
  readonly nodes: Pick<AccessNodes, 'forExecutionData' | 'succeeded' | 'blame'>;
  readonly window: BlockWindow;
  readonly sink: Pick<CollectionSink, 'onReceivedCollectionsForBlock' | 'onContradiction'>;
  /** The sealed head: execution data exists up to there. `undefined` while unknown. */
  sealedHeight(): number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections' | 'executionDataSkipped' | 'streamReopens'>;
}

/** What the execution-data stream does. */
export type ExecutionDataState =
  /** Not running. */
  | 'off'
  /** Being opened, or between two attempts; `lastError` says what went wrong with the last one. */
  | 'connecting'
  /** Delivering, or waiting for the next block to be sealed. */
  | 'streaming'
  /** Paused by us: ahead of the window, of the blocks handed out, or the byte budget is used up. */
  | 'waiting_window'
  /** No node offers execution data. */
  | 'unavailable';

/** The stream at the moment of asking. */
export interface ExecutionDataStatus {
  readonly state: ExecutionDataState;
  readonly stateAgeMs: number;
  readonly node: string | undefined;
  readonly nextHeight: number;
  /** The height of the last message; `undefined` before the first. */
  readonly lastHeight: number | undefined;
  /** Since the last message, on whichever stream. */
  readonly lastMessageAgeMs: number | undefined;
  /** What ended the last stream; cleared by the next message. */
  readonly lastError: string | undefined;
}

/** Values that are good enough not to be settings. */
const EXECUTION_DATA_DEFAULTS = {
  probeMs: 60_000,
  skipAheadHeights: 32,
  lookaheadHeights: 256,
  freshMs: 1_000,
} as const;

/** While no node serves the height, or none that does has execution data: how often the list is looked at again. */
const NO_NODE_RETRY_MS = 1_000;

/** One stream at a time: no slots to run out of, and streams wait for no rate limit. */
const ALWAYS_READY: NodeReadiness = {
  isFree: () => true,
  delayMs: () => 0,
  healthOf: (node) => node.healthOf(EXECUTION_DATA),
};

/**
 * EDI: follows the execution-data stream from just above the watermark, checks each block's collections against its
 * guarantees, and hands whole blocks in. It holds one message at most and takes the next one only when that height's
 * block has been handed out and the byte budget admits it: back-pressure, never a drop (onflow/flow-go#8114).
 *
 * Nothing a node does stops it. A stream that ends, stalls, lags, lies or is refused is opened again, on another node
 * where there is one; nodes without the feed are asked again every minute. The system chunk is dropped. A block without
 * collections is passed over: it is complete without us.
 */
export class ExecutionDataIndexer implements ExecutionDataOutlook {
  readonly #options: Required<ExecutionDataIndexerOptions>;
  readonly #dependencies: ExecutionDataIndexerDependencies;
  readonly #reader: ExecutionDataReader;
  readonly #outlook: DeliveryOutlook;
  readonly #reporter: FaultReporter;
  readonly #rotation = new NodeRotation();
  /** Nodes that answered UNIMPLEMENTED, and until when they are left alone. Bounded by the number of nodes. */
  readonly #lackingUntilMs = new Map<string, number>();
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
    this.#outlook = new DeliveryOutlook(this.#options, dependencies);
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
          // It was not refused for a whole look: the node has the feed.
          if (this.#state === 'unavailable') this.#enter('connecting');
        },
        onLateError: (error) => (this.#lateError ??= { error }),
      },
    });
  }

  /** Follows the stream until the signal aborts, then resolves. Rejects for bugs only. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#state !== 'off') throw new Error('the execution-data indexer runs already');
    this.#enter('connecting');
    try {
      while (!signal.aborted) {
        await this.#session(signal);
        if (this.#lateError !== undefined) throw this.#lateError.error;
      }
    } catch (error) {
      if (!signal.aborted || !(isAbort(error) || error === signal.reason)) throw error;
    } finally {
      this.#outlook.closed();
      this.#node = undefined;
      this.#enter('off');
    }
  }

  status(): ExecutionDataStatus {
    const nowMs = this.#dependencies.clock.monotonic();
    return {
      state: this.#state,
      stateAgeMs: nowMs - this.#stateSinceMs,
      node: this.#node?.name,
      nextHeight: Math.max(this.#reader.next, this.#dependencies.window.latestIndexedHeight() + 1),
      lastHeight: this.#lastHeight,
      lastMessageAgeMs: this.#lastMessageAtMs === undefined ? undefined : nowMs - this.#lastMessageAtMs,
      lastError: this.#lastError,
    };
  }

  /** Why execution data does not come, in one sentence; `undefined` while nothing is wrong with it. */
  trouble(): string | undefined {
    if (this.#state === 'off') return 'the execution-data stream is not followed';
    if (this.#state === 'unavailable') return 'no access node offers execution data';
    if (this.#lastError === undefined) return undefined;
    return `the execution-data stream was interrupted: ${this.#lastError}`;
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
    // Right after a failure, opening is no sign of life.
    if (this.#rotation.failures === 0) this.#outlook.alive();
    const end = await this.#reader.follow(node, signal);
    this.#outlook.closed();
    const pauseMs = this.#onStreamEnd(node, end);
    if (pauseMs > 0) await sleep(this.#dependencies.clock, pauseMs, signal);
  }

  /** `undefined` after a pause when there was nobody to ask. */
  async #chooseNode(signal: AbortSignal): Promise<AccessNode | undefined> {
    const { clock, logger, nodes } = this.#dependencies;
    const nowMs = clock.monotonic();
    const height = this.#reader.next;
    const all = nodes.forExecutionData(height);
    const offering = all.filter((node) => this.#lackingUntil(node) <= nowMs);
    const choice = this.#rotation.choose(offering, ALWAYS_READY);
    if (choice.node !== undefined) return choice.node;
    this.#node = undefined;
    if (all.length === 0) {
      this.#lastError = 'no access node serves the next height';
      await sleep(clock, NO_NODE_RETRY_MS, signal);
      return undefined;
    }
    if (this.#state !== 'unavailable') logger.info({ height }, 'no access node offers execution data');
    this.#enter('unavailable');
    // Another node may come up before one of these is to be asked again.
    const askAgainInMs = Math.min(...all.map((node) => this.#lackingUntil(node))) - nowMs;
    await sleep(clock, Math.min(askAgainInMs, NO_NODE_RETRY_MS), signal);
    return undefined;
  }

  #lackingUntil(node: AccessNode): number {
    return this.#lackingUntilMs.get(node.name) ?? 0;
  }

  #onMessage(node: AccessNode, isVerified: boolean, receivedAtMs: number): void {
    this.#lastMessageAtMs = receivedAtMs;
    this.#lastHeight = this.#reader.next - 1;
    this.#lastError = undefined;
    if (isVerified) {
      this.#rotation.succeeded();
      this.#reporter.succeeded(node, EXECUTION_DATA);
    }
    if (this.#state === 'streaming') return;
    const { logger } = this.#dependencies;
    logger.info({ node: node.name, height: this.#reader.next - 1 }, 'execution-data stream delivers');
    this.#enter('streaming');
  }

  #onWaiting(isWaiting: boolean): void {
    if (isWaiting) this.#resumedState = this.#state;
    this.#enter(isWaiting ? 'waiting_window' : this.#resumedState);
  }

  /** Answers how long to pause before the next stream is opened. */
  #onStreamEnd(node: AccessNode, end: StreamEnd): number {
    const { clock, metrics, random } = this.#dependencies;
    this.#lastError = end.text;
    if (end.reason === 'unimplemented') {
      this.#lackingUntilMs.set(node.name, clock.monotonic() + this.#options.probeMs);
      return 0;
    }
    this.#enter('connecting');
    metrics.streamReopens.inc({ stream: 'execution_data', reason: end.reason });
    this.#reporter.report(node, EXECUTION_DATA, end, this.#reader.next, { reason: end.reason });
    if (end.contradicts === true) this.#dependencies.sink.onContradiction(this.#reader.next, node, end.text);
    this.#rotation.failed(node);
    const { backoffMinMs: minMs, backoffMaxMs: maxMs } = this.#options;
    return backoffMs({ minMs, maxMs }, this.#rotation.failures - 1, random);
  }

  #enter(state: ExecutionDataState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#stateSinceMs = this.#dependencies.clock.monotonic();
  }
}
