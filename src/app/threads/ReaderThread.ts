import { MirroredMetrics } from '../../observability/index.js';
import type { Logger, Metrics, MetricsSnapshot } from '../../observability/index.js';
import {
  AbortError,
  asError,
  doublingMs,
  every,
  messageOf,
  OperatorError,
  Pause,
} from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { DOWN_AFTER_MS, ReaderInstance } from './ReaderInstance.js';
import type { ReaderEvent, ReaderSources } from './ReaderInstance.js';
import type { OpenConnections, ReaderAddresses, ReaderOptions, ReaderSettings } from './messages.js';
import type { StartReader } from './startWorker.js';

/** How often the thread is checked. The state and its surroundings are sent at least this often. */
const LOOK_EVERY_MS = 500;
/** After this long the thread is terminated and replaced. */
export const HUNG_AFTER_MS = 8_000;
/** The same for a thread that is not listening yet. */
const START_LIMIT_MS = 30_000;
/** A thread that ends is replaced at once; if its successor soon ends too, after this pause. */
const RESTART_PAUSE = { minMs: 1_000, maxMs: 30_000 };
/** A thread that has served for this long did not fail at its start. */
const STABLE_AFTER_MS = 60_000;

/** How long a scrape waits for the thread's metrics. */
const SCRAPE_LIMIT_MS = 250;

/**
 * Keeps a reader thread running: a thread that ends or hangs is replaced by a new one on the same ports. Indexing is not
 * affected.
 */
export class ReaderThread {
  readonly #dependencies: ConstructorParameters<typeof ReaderThread>[1];
  readonly #clock: Clock;
  /** The metrics of all threads so far. */
  readonly #reported = new MirroredMetrics();
  /** Woken by what the thread reports. */
  readonly #report: Pause;
  #scraping: Promise<void> | undefined;
  #options: ReaderOptions;
  #sources: ReaderSources | undefined;
  #current: ReaderInstance | undefined;
  #timer: Timer | undefined;
  #restart: Timer | undefined;
  #lookedAtMs = 0;
  /** Consecutive threads that ended soon after their start. */
  #failures = 0;
  /** Why the last thread ended. */
  #cause: unknown;
  #isClosing = false;
  #serving:
    | { readonly resolve: (addresses: ReaderAddresses) => void; readonly reject: (error: unknown) => void }
    | undefined;
  #closing: Promise<void> | undefined;
  /** The successor of the thread must wait. */
  #isHeldBack = false;

  /** Starts the thread, which loads its modules and waits for `serve`. */
  constructor(
    options: ReaderOptions,
    dependencies: {
      readonly start: StartReader;
      readonly clock: Clock;
      readonly logger: Logger;
      readonly metrics: Pick<Metrics, 'logLinesLost' | 'readersReplaced'>;
    },
  ) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#clock = dependencies.clock;
    this.#report = new Pause(dependencies);
    this.#begin();
  }

  /**
   * Resolves when the thread listens. Expected errors: OperatorError (an unusable address, and anything else that the
   * operator must fix); AbortError when it is closed first.
   */
  serve(sources: ReaderSources): Promise<ReaderAddresses> {
    this.#sources = sources;
    return new Promise((resolve, reject) => {
      this.#serving = { resolve, reject };
      if (this.#isClosing) reject(new AbortError('stopping'));
      else if (this.#current === undefined) reject(asError(this.#cause));
      else {
        this.#lookedAtMs = this.#clock.monotonic();
        this.#timer = every(this.#clock, LOOK_EVERY_MS, () => this.#look());
        this.#current.serve(sources);
      }
    });
  }

  /** Call it when the index has changed. Cheap, and never throws. */
  notify(): void {
    this.#current?.notify();
  }

  /** Like `notify`, for the rest: readiness, and the nodes to forward to. */
  notifyOfSurroundings(): void {
    this.#current?.notifyOfSurroundings();
  }

  /** Changes this thread and every one that follows it. */
  change(change: Partial<ReaderSettings>): void {
    const settings = { ...this.#options.settings, ...change };
    this.#options = { ...this.#options, settings };
    this.#current?.post({ kind: 'settings', settings });
  }

  /** Ends the thread, runs an action that needs what it holds, and starts another thread. */
  async without(action: () => Promise<void>): Promise<void> {
    this.#restart?.cancel();
    this.#isHeldBack = true;
    await this.#current?.stop();
    this.#cause = new Error('the store is opened again');
    try {
      await action();
    } finally {
      this.#isHeldBack = false;
      if (!this.#isClosing) this.#begin();
    }
  }

  /** The connections of callers to each port; `undefined` while none are served. */
  connections(): OpenConnections | undefined {
    return this.#current?.connections;
  }

  /** Why readers are not served; `undefined` while they are, and before the first start. */
  down(): { readonly message: string } | undefined {
    if (this.#serving !== undefined || this.#isClosing || this.#sources === undefined) return undefined;
    const instance = this.#current;
    if (!instance?.isServing) {
      return {
        message: `the reader thread has ended (${messageOf(this.#cause)}); a new one is starting`,
      };
    }
    if (instance.silentMs < DOWN_AFTER_MS) return undefined;
    const seconds = Math.floor(instance.silentMs / 1_000);
    return {
      message: `the reader thread has not answered for ${seconds} s; after ${HUNG_AFTER_MS / 1_000} s it is replaced`,
    };
  }

  /** The totals of all threads so far. Asks the current one, once for all who ask at a time, with a short deadline. */
  async metrics(): Promise<readonly MetricsSnapshot[]> {
    if (this.#current?.isServing) {
      if (this.#scraping === undefined) {
        this.#scraping = this.#report.sleep(SCRAPE_LIMIT_MS).finally(() => (this.#scraping = undefined));
        this.#current.post({ kind: 'scrape' });
      }
      await this.#scraping;
    }
    return this.#reported.all();
  }

  /** Closes the servers and ends the thread; if it does not answer, it is terminated. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    this.#restart?.cancel();
    await this.#current?.stop();
    this.#timer?.cancel();
  }

  #begin(): void {
    const instance = new ReaderInstance(this.#options, {
      ...this.#dependencies,
      onEvent: (event) => this.#onEvent(instance, event),
      onEnd: (error) => this.#ended(instance, error),
    });
    this.#current = instance;
    if (this.#sources !== undefined) instance.serve(this.#sources);
  }

  #onEvent(instance: ReaderInstance, event: ReaderEvent): void {
    switch (event.kind) {
      case 'listening':
        this.#listening(instance, event.addresses);
        break;
      case 'refused':
        this.#serving?.reject(new OperatorError(event.exit, event.message));
        break;
      case 'metrics':
        this.#reported.update(event.metrics);
        this.#report.wake();
        break;
      case 'log':
        this.#dependencies.logger[event.level](event.fields, event.message);
        break;
      case 'logLost':
        this.#dependencies.metrics.logLinesLost.inc(event.records);
        this.#dependencies.logger.warn(
          { records: event.records },
          'log records of the reader thread were dropped',
        );
        break;
    }
  }

  #listening(instance: ReaderInstance, addresses: ReaderAddresses): void {
    // Its successor listens on the same ports.
    const { api } = this.#options;
    const grpcPort = addresses.grpc?.port ?? api.grpcPort;
    this.#options = { ...this.#options, api: { ...api, port: addresses.api.port, grpcPort } };
    if (this.#serving === undefined) this.#dependencies.logger.info(addresses, 'readers are served again');
    this.#serving?.resolve(addresses);
    this.#serving = undefined;
    // So that some of its metrics are known if it never answers again.
    instance.post({ kind: 'scrape' });
  }

  #look(): void {
    const nowMs = this.#clock.monotonic();
    // A process that was suspended could receive nothing.
    const passedMs = Math.min(nowMs - this.#lookedAtMs, 2 * LOOK_EVERY_MS);
    this.#lookedAtMs = nowMs;
    const instance = this.#current;
    if (instance === undefined || instance.isGivenUp) return;
    instance.look(passedMs);
    if (instance.silentMs === 0 && nowMs - (instance.listensSinceMs ?? nowMs) >= STABLE_AFTER_MS)
      this.#failures = 0;
    const limitMs = instance.isServing ? HUNG_AFTER_MS : START_LIMIT_MS;
    if (instance.silentMs < limitMs || this.#isClosing) return;
    this.#cause = new Error(`no answer for ${limitMs / 1_000} s`);
    instance.giveUp();
  }

  #ended(instance: ReaderInstance, error: unknown): void {
    this.#current = undefined;
    // The next one counts from zero.
    this.#reported.ended();
    this.#report.wake();
    if (this.#isClosing) {
      this.#serving?.reject(new AbortError('stopping'));
      return;
    }
    if (this.#isHeldBack) return;
    const reason = instance.isGivenUp ? 'hung' : 'died';
    if (!instance.isGivenUp) this.#cause = instance.refusal ?? error ?? 'it ended by itself';
    if (this.#serving !== undefined) {
      // A thread that cannot start at all is the caller's problem.
      this.#serving.reject(asError(this.#cause));
      return;
    }
    if (this.#sources === undefined) return;
    this.#dependencies.metrics.readersReplaced.inc({ reason });
    const pauseMs = this.#failures === 0 ? 0 : doublingMs(RESTART_PAUSE, this.#failures - 1);
    this.#failures += 1;
    const fields = { reason, detail: messageOf(this.#cause), restartInMs: pauseMs };
    this.#dependencies.logger.error(
      error === undefined ? fields : { ...fields, error },
      'the reader thread has ended',
    );
    this.#restart = this.#clock.setTimer(pauseMs, () => this.#begin());
  }
}
