import type { ForwardingDesk } from '../../access/index.js';
import { ApiError } from '../../api/index.js';
import type { ApiSecrets, NamedHeight, StatusDocument, WorkMoment } from '../../api/index.js';
import type { Identifier } from '../../flow/index.js';
import { MirroredMetrics } from '../../observability/index.js';
import type { Logger, Metrics, MetricsSnapshot } from '../../observability/index.js';
import { AbortError, doublingMs, EndGate, messageOf, OperatorError, sleep } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { CallAdmissions } from './CallAdmissions.js';
import { ReaderExaminations } from './ReaderExaminations.js';
import type {
  Answer,
  Examination,
  FromReader,
  IndexMoment,
  Question,
  ReaderAddresses,
  ReaderOptions,
  ReaderSettings,
  Surroundings,
} from './messages.js';
import type { ReaderHandle, StartReader } from './startWorker.js';

/** How often the thread is checked. The state and its surroundings are sent at least this often. */
const LOOK_EVERY_MS = 500;
/** Without an acknowledgement for this long, readers count as not served. */
export const DOWN_AFTER_MS = 3_000;
/** After this long the thread is terminated and replaced. */
export const HUNG_AFTER_MS = 8_000;
/** The same for a thread that is not listening yet. */
const START_LIMIT_MS = 30_000;
/** Time for a graceful stop; its servers take CLOSE_GRACE_MS (2 s) at most. */
const STOP_GRACE_MS = 4_000;
/** A thread that ends is replaced at once; if its successor ends soon as well, after this pause. */
const RESTART_PAUSE = { minMs: 1_000, maxMs: 30_000 };
/** A thread that has served for this long did not fail at its start. */
const STABLE_AFTER_MS = 60_000;
/** How long to wait for a moment at which the thread may be terminated. */
const GATE_LIMIT_MS = 1_000;
const GATE_LOOK_MS = 10;
/** How long a scrape waits for the thread's metrics. */
const SCRAPE_LIMIT_MS = 250;

/** What the thread is sent and may ask. Everything is synchronous, except the admission of forwarded calls. */
export interface ReaderSources {
  moment(): IndexMoment;
  surroundings(): Surroundings;
  status(): StatusDocument;
  momentAt(height: number): WorkMoment;
  naming(id: Identifier): NamedHeight | undefined;
  readonly desk: ForwardingDesk;
}

export interface ReaderThreadDependencies {
  readonly start: StartReader;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'readersReplaced'>;
}

/** One thread, from start to end. */
interface Life {
  readonly handle: ReaderHandle;
  readonly gate: EndGate;
  readonly admissions: CallAdmissions;
  /** A state was sent that is not acknowledged yet. */
  isOwed: boolean;
  /** Time without an acknowledgement of what was sent. */
  silentMs: number;
  /** Surroundings were sent since the last check. */
  knowsSurroundings: boolean;
  /** Something changed after the state that is not acknowledged yet. */
  hasNews: boolean;
  listensSinceMs: number | undefined;
  refusal: string | undefined;
  ending: 'hung' | undefined;
}

/**
 * The reader thread as the main thread sees it: sends it what may be read, answers its questions, and watches it. It is
 * sent one message at a time, the newest state, and acknowledges each: that is its heartbeat as well. A thread that
 * ends or hangs is replaced by a new one on the same ports; indexing is not affected.
 */
export class ReaderThread {
  readonly #dependencies: ReaderThreadDependencies;
  readonly #clock: Clock;
  readonly #told = new MirroredMetrics();
  readonly #examinations: ReaderExaminations;
  /** Scrapes that wait for the metrics. */
  #onMetrics: (() => void)[] = [];
  #options: Omit<ReaderOptions, 'gate'>;
  #sources: ReaderSources | undefined;
  #life: Life | undefined;
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
      else this.#send(this.#life);
    });
  }

  /** What may be read has changed. Cheap, and never throws. */
  notify(): void {
    const life = this.#life;
    if (life === undefined || this.#sources === undefined) return;
    if (life.isOwed) life.hasNews = true;
    else this.#send(life);
  }

  /** Like `notify`, for everything else the readers are told: readiness, and the nodes to forward to. */
  notifyOfSurroundings(): void {
    if (this.#life !== undefined) this.#life.knowsSurroundings = false;
    this.notify();
  }

  /** Changes this thread and every one that follows it. */
  change(settings: ReaderSettings): void {
    const { corsOrigins, logLevel, ratePerSecondPerAddress } = settings;
    const api = { ...this.#options.api, corsOrigins, ratePerSecondPerAddress };
    this.#options = { ...this.#options, api, logLevel };
    this.#life?.handle.post({ kind: 'settings', settings });
  }

  /** Like `change`. */
  secure(secrets: ApiSecrets): void {
    this.#options = { ...this.#options, secrets };
    this.#life?.handle.post({ kind: 'secrets', secrets });
  }

  /** Looks into the thread. Expected errors: ApiError (503) when that is not possible now. */
  examine(wanted: Examination): Promise<string> {
    const handle = this.#life?.handle;
    if (handle === undefined)
      return Promise.reject(new ApiError(503, 'busy', 'there is no reader thread now; retry'));
    return this.#examinations.ask(wanted, (message) => handle.post(message));
  }

  /** Why readers are not served; `undefined` while they are, and before the first start. */
  down(): { readonly message: string } | undefined {
    if (this.#begun !== undefined || this.#isClosing || this.#sources === undefined) return undefined;
    const life = this.#life;
    if (life === undefined || life.ending !== undefined || life.listensSinceMs === undefined) {
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
    if (life?.listensSinceMs !== undefined && life.ending === undefined) {
      await new Promise<void>((resolve) => {
        const timer = this.#clock.setTimer(SCRAPE_LIMIT_MS, resolve);
        this.#onMetrics.push(() => {
          timer.cancel();
          resolve();
        });
        if (this.#onMetrics.length === 1) life.handle.post({ kind: 'scrape' });
      });
    }
    return this.#told.all();
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
    if (life.silentMs >= DOWN_AFTER_MS && !life.gate.isLoading) {
      this.#terminate(life);
      return ended;
    }
    life.handle.post({ kind: 'stop' });
    const timer = this.#clock.setTimer(STOP_GRACE_MS, () => {
      this.#dependencies.logger.warn({ limitMs: STOP_GRACE_MS }, 'the reader thread did not close in time');
      this.#terminate(life);
    });
    await ended;
    timer.cancel();
  }

  #begin(): void {
    const gate = EndGate.forThread();
    const handle = this.#dependencies.start({ ...this.#options, gate: gate.memory });
    const life: Life = {
      ...{ handle, gate },
      admissions: new CallAdmissions({ clock: this.#clock, post: (message) => handle.post(message) }),
      ...{ isOwed: false, silentMs: 0, knowsSurroundings: false, hasNews: false },
      ...{ listensSinceMs: undefined, refusal: undefined, ending: undefined },
    };
    this.#life = life;
    handle.onMessage((message) => this.#receive(life, message));
    handle.onEnd((error) => this.#ended(life, error));
    if (this.#sources !== undefined) this.#send(life);
  }

  #send(life: Life, { withSurroundings = !life.knowsSurroundings } = {}): void {
    const sources = this.#sources;
    if (sources === undefined) return;
    life.isOwed = true;
    life.hasNews = false;
    const surroundings = withSurroundings ? sources.surroundings() : undefined;
    life.knowsSurroundings = true;
    life.handle.post({
      kind: 'state',
      moment: sources.moment(),
      ...(surroundings === undefined ? {} : { surroundings }),
    });
  }

  #receive(life: Life, message: FromReader): void {
    const { logger } = this.#dependencies;
    switch (message.kind) {
      case 'ack':
        life.isOwed = false;
        life.silentMs = 0;
        if (life.hasNews) this.#send(life);
        break;
      case 'listening':
        this.#listening(life, message.addresses);
        break;
      case 'refused':
        life.refusal = message.message;
        this.#begun?.reject(new OperatorError(message.exit, message.message));
        break;
      case 'ask':
        // Readers see at least what the status says.
        if (message.question.about === 'status') this.#send(life, { withSurroundings: true });
        life.handle.post({ kind: 'answer', id: message.id, answer: this.#answer(message.question) });
        break;
      case 'admit':
        void life.admissions.admit(message, this.#sources?.desk);
        break;
      case 'over':
        life.admissions.over(message);
        break;
      case 'examined':
        this.#examinations.answered(message.id, message.outcome);
        break;
      case 'metrics':
        this.#told.told(message.metrics);
        for (const wake of this.#onMetrics.splice(0)) wake();
        break;
      case 'log':
        logger[message.level](message.fields, message.message);
        break;
    }
  }

  #listening(life: Life, addresses: ReaderAddresses): void {
    life.listensSinceMs = this.#clock.monotonic();
    // Its successor listens on the same ports.
    const { api } = this.#options;
    const grpcPort = addresses.grpc?.port ?? api.grpcPort;
    this.#options = { ...this.#options, api: { ...api, port: addresses.api.port, grpcPort } };
    if (this.#begun === undefined) this.#dependencies.logger.info(addresses, 'readers are served again');
    this.#begun?.resolve(addresses);
    this.#begun = undefined;
    // So that some metrics are known even if it never answers again.
    life.handle.post({ kind: 'scrape' });
  }

  #answer(question: Question): Answer {
    const sources = this.#sources;
    if (sources === undefined) throw new Error('the reader thread asked before it was sent any state');
    switch (question.about) {
      case 'status':
        return sources.status();
      case 'height':
        return sources.momentAt(question.height);
      case 'id':
        return sources.naming(question.id);
    }
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
    if (life === undefined || life.ending !== undefined) return;
    life.knowsSurroundings = false;
    if (!life.isOwed) {
      this.#send(life);
      if (nowMs - (life.listensSinceMs ?? nowMs) >= STABLE_AFTER_MS) this.#failures = 0;
      return;
    }
    life.silentMs += passedMs;
    const limitMs = life.listensSinceMs === undefined ? START_LIMIT_MS : HUNG_AFTER_MS;
    if (life.silentMs < limitMs || this.#isClosing) return;
    this.#cause = new Error(`no answer for ${limitMs / 1_000} s`);
    life.ending = 'hung';
    this.#terminate(life);
  }

  /** Not at a harmful moment: waits while it loads, and for a while if it is in a critical step. */
  #terminate({ handle, gate }: Life): void {
    const endByMs = this.#clock.monotonic() + GATE_LIMIT_MS;
    const attempt = async (): Promise<void> => {
      while (!gate.close()) {
        if (!gate.isLoading && this.#clock.monotonic() >= endByMs) break;
        await sleep(this.#clock, GATE_LOOK_MS);
      }
      handle.terminate();
    };
    void attempt();
  }

  #ended(life: Life, error: unknown): void {
    this.#life = undefined;
    life.admissions.endAll();
    this.#examinations.endAll();
    this.#told.ended();
    for (const wake of this.#onMetrics.splice(0)) wake();
    if (this.#isClosing) {
      this.#begun?.reject(new AbortError('stopping'));
      this.#timer?.cancel();
      this.#onEnded();
      return;
    }
    const reason = life.ending ?? 'died';
    if (life.ending === undefined) this.#cause = life.refusal ?? error ?? 'it left';
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

function asError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(messageOf(cause));
}
