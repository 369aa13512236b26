import { ApiError } from '../../api/index.js';
import type { ApiSecrets } from '../../api/index.js';
import type { Logger, Metrics, MetricsSnapshot } from '../../observability/index.js';
import { AbortError, asError, doublingMs, messageOf, OperatorError } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { ReaderExaminations } from './ReaderExaminations.js';
import { DOWN_AFTER_MS, ReaderLife } from './ReaderLife.js';
import type { ReaderNews, ReaderSources } from './ReaderLife.js';
import { ReaderScrapes } from './ReaderScrapes.js';
import type { Examination, ReaderAddresses, ReaderOptions, ReaderSettings } from './messages.js';
import type { StartReader } from './startWorker.js';

/** How often the thread is checked. The state and its surroundings are sent at least this often. */
const LOOK_EVERY_MS = 500;
/** After this long the thread is terminated and replaced. */
export const HUNG_AFTER_MS = 8_000;
/** The same for a thread that is not listening yet. */
const START_LIMIT_MS = 30_000;
/** A thread that ends is replaced at once; if its successor ends soon as well, after this pause. */
const RESTART_PAUSE = { minMs: 1_000, maxMs: 30_000 };
/** A thread that has served for this long did not fail at its start. */
const STABLE_AFTER_MS = 60_000;

export interface ReaderThreadDependencies {
  readonly start: StartReader;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'readersReplaced'>;
}

/**
 * The reader thread as the main thread sees it: always one that runs. A thread that ends or hangs is replaced by a new
 * one on the same ports; indexing is not affected.
 */
export class ReaderThread {
  readonly #dependencies: ReaderThreadDependencies;
  readonly #clock: Clock;
  readonly #scrapes: ReaderScrapes;
  readonly #examinations: ReaderExaminations;
  #options: Omit<ReaderOptions, 'gate'>;
  #sources: ReaderSources | undefined;
  #life: ReaderLife | undefined;
  #timer: Timer | undefined;
  #restart: Timer | undefined;
  #lookedAtMs = 0;
  /** Consecutive threads that ended soon. */
  #failures = 0;
  /** Why the last thread ended. */
  #cause: unknown;
  #isClosing = false;
  #begun:
    | { readonly resolve: (addresses: ReaderAddresses) => void; readonly reject: (error: unknown) => void }
    | undefined;
  #closing: Promise<void> | undefined;
  #onEnded: () => void = () => undefined;

  /** Starts the thread, which loads its modules and waits for `serve`. */
  constructor(options: Omit<ReaderOptions, 'gate'>, dependencies: ReaderThreadDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#clock = dependencies.clock;
    this.#scrapes = new ReaderScrapes(dependencies);
    this.#examinations = new ReaderExaminations(dependencies);
    this.#begin();
  }

  /**
   * Resolves when the thread listens. Expected errors: OperatorError (an unusable address, and anything else that the
   * operator must fix); AbortError when it is closed first.
   */
  serve(sources: ReaderSources): Promise<ReaderAddresses> {
    this.#sources = sources;
    this.#lookedAtMs = this.#clock.monotonic();
    this.#lookLater();
    return new Promise((resolve, reject) => {
      this.#begun = { resolve, reject };
      if (this.#isClosing) reject(new AbortError('stopping'));
      else if (this.#life === undefined) reject(asError(this.#cause));
      else this.#life.serve(sources);
    });
  }

  /** What may be read has changed. Cheap, and never throws. */
  notify(): void {
    this.#life?.notify();
  }

  /** Like `notify`, for everything else the readers are told: readiness, and the nodes to forward to. */
  notifyOfSurroundings(): void {
    this.#life?.notifyOfSurroundings();
  }

  /** Changes this thread and every one that follows it. */
  change(settings: ReaderSettings): void {
    const { logLevel, ...limits } = settings;
    const api = { ...this.#options.api, ...limits };
    this.#options = { ...this.#options, api, logLevel };
    this.#life?.post({ kind: 'settings', settings });
  }

  /** Like `change`. */
  secure(secrets: ApiSecrets): void {
    this.#options = { ...this.#options, secrets };
    this.#life?.post({ kind: 'secrets', secrets });
  }

  /** Looks into the thread. Expected errors: ApiError (503) when that is not possible now. */
  examine(wanted: Examination): Promise<string> {
    const life = this.#life;
    if (life === undefined)
      return Promise.reject(new ApiError(503, 'busy', 'there is no reader thread now; retry'));
    return this.#examinations.ask(wanted, (message) => life.post(message));
  }

  /** Why readers are not served; `undefined` while they are, and before the first start. */
  down(): { readonly message: string } | undefined {
    if (this.#begun !== undefined || this.#isClosing || this.#sources === undefined) return undefined;
    const life = this.#life;
    if (!life?.isServing) {
      return {
        message: `the reader thread has ended (${messageOf(this.#cause)}); a new one is starting`,
      };
    }
    if (life.silentMs < DOWN_AFTER_MS) return undefined;
    const seconds = Math.floor(life.silentMs / 1_000);
    return {
      message: `the reader thread has not answered for ${seconds} s; after ${HUNG_AFTER_MS / 1_000} s it is replaced`,
    };
  }

  /** The totals of all threads so far. The current one is asked, with a short deadline. */
  async metrics(): Promise<readonly MetricsSnapshot[]> {
    const life = this.#life;
    if (life?.isServing) await this.#scrapes.fresh(() => life.post({ kind: 'scrape' }));
    return this.#scrapes.all();
  }

  /** Closes the servers and ends the thread; if it does not answer, it is terminated. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    this.#restart?.cancel();
    const life = this.#life;
    if (life === undefined) {
      this.#timer?.cancel();
      return;
    }
    const ended = new Promise<void>((resolve) => (this.#onEnded = resolve));
    life.stop();
    await ended;
  }

  #begin(): void {
    const life = new ReaderLife(this.#options, {
      ...this.#dependencies,
      onNews: (news) => this.#hear(life, news),
      onEnd: (error) => this.#ended(life, error),
    });
    this.#life = life;
    if (this.#sources !== undefined) life.serve(this.#sources);
  }

  #hear(life: ReaderLife, news: ReaderNews): void {
    switch (news.kind) {
      case 'listening':
        this.#listening(life, news.addresses);
        break;
      case 'refused':
        this.#begun?.reject(new OperatorError(news.exit, news.message));
        break;
      case 'examined':
        this.#examinations.answered(news.id, news.outcome);
        break;
      case 'metrics':
        this.#scrapes.told(news.metrics);
        break;
      case 'log':
        this.#dependencies.logger[news.level](news.fields, news.message);
        break;
    }
  }

  #listening(life: ReaderLife, addresses: ReaderAddresses): void {
    // Its successor listens on the same ports.
    const { api } = this.#options;
    const grpcPort = addresses.grpc?.port ?? api.grpcPort;
    this.#options = { ...this.#options, api: { ...api, port: addresses.api.port, grpcPort } };
    if (this.#begun === undefined) this.#dependencies.logger.info(addresses, 'readers are served again');
    this.#begun?.resolve(addresses);
    this.#begun = undefined;
    // So that some metrics are known even if it never answers again.
    life.post({ kind: 'scrape' });
  }

  #lookLater(): void {
    this.#timer = this.#clock.setTimer(LOOK_EVERY_MS, () => {
      this.#look();
      this.#lookLater();
    });
  }

  #look(): void {
    const nowMs = this.#clock.monotonic();
    // A suspended process has received nothing.
    const passedMs = Math.min(nowMs - this.#lookedAtMs, 2 * LOOK_EVERY_MS);
    this.#lookedAtMs = nowMs;
    const life = this.#life;
    if (life === undefined || life.isGivenUp) return;
    life.look(passedMs);
    if (life.silentMs === 0 && nowMs - (life.listensSinceMs ?? nowMs) >= STABLE_AFTER_MS) this.#failures = 0;
    const limitMs = life.isServing ? HUNG_AFTER_MS : START_LIMIT_MS;
    if (life.silentMs < limitMs || this.#isClosing) return;
    this.#cause = new Error(`no answer for ${limitMs / 1_000} s`);
    life.giveUp();
  }

  #ended(life: ReaderLife, error: unknown): void {
    this.#life = undefined;
    this.#examinations.endAll();
    this.#scrapes.ended();
    if (this.#isClosing) {
      this.#begun?.reject(new AbortError('stopping'));
      this.#timer?.cancel();
      this.#onEnded();
      return;
    }
    const reason = life.isGivenUp ? 'hung' : 'died';
    if (!life.isGivenUp) this.#cause = life.refusal ?? error ?? 'it left';
    if (this.#begun !== undefined) {
      // A thread that cannot start at all is the caller's problem.
      this.#begun.reject(asError(this.#cause));
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
