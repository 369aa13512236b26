import type { AdmissionEnd, ForwardingAdmission } from '../../access/index.js';
import type { NamedHeight, StatusDocument, WorkMoment } from '../../api/index.js';
import type { Identifier } from '../../flow/index.js';
import { MirroredMetrics } from '../../observability/index.js';
import type { Logger, Metrics, MetricsSnapshot } from '../../observability/index.js';
import {
  AbortError,
  asError,
  doublingMs,
  EndGate,
  every,
  isAbort,
  messageOf,
  OperatorError,
  Pause,
  sleep,
} from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import type { FoundDamage } from '../../storage/index.js';
import type {
  Answer,
  FromReader,
  IndexMoment,
  OpenConnections,
  Question,
  ReaderAddresses,
  ReaderOptions,
  ReaderSettings,
  Surroundings,
} from './messages.js';
import type { ReaderHandle, StartReader } from './startWorker.js';

/** How often the thread is checked. The state and its surroundings are sent at least this often. */
const LOOK_EVERY_MS = 500;
/** After this time without an acknowledgement, readers count as not served. */
export const DOWN_AFTER_MS = 3_000;
/** After this long the thread is terminated and replaced. */
export const HUNG_AFTER_MS = 8_000;
/** The same for a thread that is not listening yet. */
const START_LIMIT_MS = 30_000;
/** A thread that ends is replaced at once; if its successor soon ends too, after this pause. */
const RESTART_PAUSE = { minMs: 1_000, maxMs: 30_000 };
/** A thread that has served for this long did not fail at its start. */
const STABLE_AFTER_MS = 60_000;
/** Time for a graceful stop; its servers take CLOSE_GRACE_MS (2 s) at most. */
const STOP_GRACE_MS = 4_000;
/** How long to wait for a moment at which the thread may be terminated. */
const GATE_LIMIT_MS = 1_000;
const GATE_LOOK_MS = 10;
/** How long a scrape waits for the thread's metrics. */
const SCRAPE_LIMIT_MS = 250;

/** What the thread is sent and may ask. Everything is synchronous, except the admission of forwarded calls. */
export interface ReaderSources {
  readonly moment: () => IndexMoment;
  readonly surroundings: () => Surroundings;
  readonly status: () => StatusDocument;
  readonly momentAt: (height: number) => WorkMoment;
  readonly naming: (id: Identifier) => NamedHeight | undefined;
  /** A read has met damage. Does not throw. */
  readonly damaged: (damage: FoundDamage) => void;
  readonly admission: ForwardingAdmission;
}

/** One thread, from its start to its end. */
class Run {
  readonly gate = EndGate.forThread();
  readonly handle: ReaderHandle;
  readonly ended: Promise<void>;
  /** How each forwarded call ends that waits to be admitted or is under way. Bounded by the limits on forwarded calls. */
  readonly calls = new Map<number, (end: AdmissionEnd) => void>();
  /** A state was sent and is not acknowledged yet. */
  awaitsAck = false;
  /** Something has changed since that state. */
  hasChanged = false;
  /** Surroundings were sent since the last check. */
  hasSurroundings = false;
  /** How long an acknowledgement is overdue, as counted at each check; 0 when none is. */
  silentMs = 0;
  /** Monotonic; `undefined` until its servers listen. */
  listensSinceMs: number | undefined;
  /** As of the last acknowledgement; `undefined` while its servers do not listen. */
  connections: OpenConnections | undefined;
  /** Why it cannot serve, for the operator. */
  refusal: string | undefined;
  /** It hangs, and is terminated. */
  isGivenUp = false;
  stopping: Timer | undefined;

  constructor(options: ReaderOptions, start: StartReader, onEnd: (error: unknown) => void) {
    this.handle = start({ ...options, gate: this.gate.memory });
    this.ended = new Promise((resolve) => {
      this.handle.onEnd((error) => {
        this.stopping?.cancel();
        for (const id of [...this.calls.keys()]) this.over(id, 'other');
        onEnd(error);
        resolve();
      });
    });
  }

  get isServing(): boolean {
    return this.listensSinceMs !== undefined && !this.isGivenUp;
  }

  /** A forwarded call is over, or no longer wants to be admitted. */
  over(id: number, end: AdmissionEnd): void {
    const finish = this.calls.get(id);
    this.calls.delete(id);
    finish?.(end);
  }
}

/**
 * Keeps a reader thread running: sends it the state of the index, answers its questions, and replaces it on the same ports when
 * it ends or hangs. Each state waits for the acknowledgement of the one before, which also serves as heartbeat. Indexing is not
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
  #run: Run | undefined;
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
      else if (this.#run === undefined) reject(asError(this.#cause));
      else {
        this.#lookedAtMs = this.#clock.monotonic();
        this.#timer = every(this.#clock, LOOK_EVERY_MS, () => this.#look());
        this.#send(this.#run);
      }
    });
  }

  /** Call it when the index has changed. Cheap, and never throws. */
  notify(): void {
    const run = this.#run;
    if (run?.awaitsAck === true) run.hasChanged = true;
    else if (run !== undefined) this.#send(run);
  }

  /** Like `notify`, for the rest: readiness, and the nodes to forward to. */
  notifyOfSurroundings(): void {
    if (this.#run !== undefined) this.#run.hasSurroundings = false;
    this.notify();
  }

  /** Changes this thread and every one that follows it. */
  change(change: Partial<ReaderSettings>): void {
    const settings = { ...this.#options.settings, ...change };
    this.#options = { ...this.#options, settings };
    this.#run?.handle.post({ kind: 'settings', settings });
  }

  /** Ends the thread, runs an action that needs what it holds, and starts another thread. */
  async without(action: () => Promise<void>): Promise<void> {
    this.#restart?.cancel();
    this.#isHeldBack = true;
    await this.#stop();
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
    return this.#run?.connections;
  }

  /** Why readers are not served; `undefined` while they are, and before the first start. */
  down(): { readonly message: string } | undefined {
    if (this.#serving !== undefined || this.#isClosing || this.#sources === undefined) return undefined;
    const run = this.#run;
    if (!run?.isServing) {
      return {
        message: `the reader thread has ended (${messageOf(this.#cause)}); a new one is starting`,
      };
    }
    if (run.silentMs < DOWN_AFTER_MS) return undefined;
    const seconds = Math.floor(run.silentMs / 1_000);
    return {
      message: `the reader thread has not answered for ${seconds} s; after ${HUNG_AFTER_MS / 1_000} s it is replaced`,
    };
  }

  /** The totals of all threads so far. Asks the current one, once for all who ask at a time, with a short deadline. */
  async metrics(): Promise<readonly MetricsSnapshot[]> {
    if (this.#run?.isServing) {
      if (this.#scraping === undefined) {
        this.#scraping = this.#report.sleep(SCRAPE_LIMIT_MS).finally(() => (this.#scraping = undefined));
        this.#run.handle.post({ kind: 'scrape' });
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
    await this.#stop();
    this.#timer?.cancel();
  }

  #begin(): void {
    const run = new Run(this.#options, this.#dependencies.start, (error) => this.#ended(run, error));
    run.handle.onMessage((message) => this.#receive(run, message));
    this.#run = run;
    this.#send(run);
  }

  /** The first state starts its servers. */
  #send(run: Run): void {
    if (this.#sources === undefined) return;
    const { moment, surroundings } = this.#sources;
    run.awaitsAck = true;
    run.hasChanged = false;
    const besides = run.hasSurroundings ? {} : { surroundings: surroundings() };
    run.hasSurroundings = true;
    run.handle.post({ kind: 'state', moment: moment(), ...besides });
  }

  #receive(run: Run, message: FromReader): void {
    const { logger, metrics } = this.#dependencies;
    switch (message.kind) {
      case 'ack':
        run.connections = message.connections;
        run.awaitsAck = false;
        run.silentMs = 0;
        if (run.hasChanged) this.#send(run);
        break;
      case 'listening':
        this.#listening(run, message.addresses);
        break;
      case 'refused':
        run.refusal = message.message;
        this.#serving?.reject(new OperatorError(message.exit, message.message));
        break;
      case 'ask':
        // So that reads are at least as new as the status.
        if (message.question.about === 'status') {
          run.hasSurroundings = false;
          this.#send(run);
        }
        run.handle.post({ kind: 'answer', id: message.id, answer: this.#answer(message.question) });
        break;
      case 'admit':
        void this.#admit(run, message);
        break;
      case 'over':
        run.over(message.id, message.end);
        break;
      case 'damage':
        this.#sources?.damaged(message.damage);
        break;
      case 'metrics':
        this.#reported.update(message.metrics);
        this.#report.wake();
        break;
      case 'log':
        logger[message.level](message.fields, message.message);
        break;
      case 'logLost':
        metrics.logLinesLost.inc(message.records);
        logger.warn({ records: message.records }, 'log records of the reader thread were dropped');
        break;
    }
  }

  #listening(run: Run, addresses: ReaderAddresses): void {
    run.listensSinceMs = this.#clock.monotonic();
    // Its successor listens on the same ports.
    const { api } = this.#options;
    const grpcPort = addresses.grpc?.port ?? api.grpcPort;
    this.#options = { ...this.#options, api: { ...api, port: addresses.api.port, grpcPort } };
    if (this.#serving === undefined) this.#dependencies.logger.info(addresses, 'readers are served again');
    this.#serving?.resolve(addresses);
    this.#serving = undefined;
    // So that some of its metrics are known if it never answers again.
    run.handle.post({ kind: 'scrape' });
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

  /** Asks whether a call may be forwarded, and tells the thread. */
  async #admit(
    { calls, handle }: Run,
    { id, node, call }: Extract<FromReader, { readonly kind: 'admit' }>,
  ): Promise<void> {
    const withdraw = new AbortController();
    calls.set(id, () => withdraw.abort(new AbortError()));
    try {
      const outcome = (await this.#sources?.admission.admit(node, call, withdraw.signal)) ?? 'gone';
      if (typeof outcome === 'string') {
        calls.delete(id);
        handle.post({ kind: 'admission', id, outcome });
      } else if (calls.has(id)) {
        calls.set(id, (end) => outcome.over(end));
        outcome.onMakeWay(() => handle.post({ kind: 'makeWay', id }));
        handle.post({ kind: 'admission', id, outcome: 'admitted' });
      } else {
        // Cancelled while it was being admitted.
        outcome.over('other');
      }
    } catch (error) {
      if (!isAbort(error)) throw error;
    }
  }

  /** The regular check: sends the state and its surroundings, or counts the silence. */
  #look(): void {
    const nowMs = this.#clock.monotonic();
    // A process that was suspended could receive nothing.
    const passedMs = Math.min(nowMs - this.#lookedAtMs, 2 * LOOK_EVERY_MS);
    this.#lookedAtMs = nowMs;
    const run = this.#run;
    if (run === undefined || run.isGivenUp) return;
    run.hasSurroundings = false;
    if (run.awaitsAck) run.silentMs += passedMs;
    else this.#send(run);
    if (run.silentMs === 0 && nowMs - (run.listensSinceMs ?? nowMs) >= STABLE_AFTER_MS) this.#failures = 0;
    const limitMs = run.isServing ? HUNG_AFTER_MS : START_LIMIT_MS;
    if (run.silentMs < limitMs || this.#isClosing) return;
    this.#cause = new Error(`no answer for ${limitMs / 1_000} s`);
    run.isGivenUp = true;
    void this.#terminate(run);
  }

  /** Asks the thread to close its servers and end, terminates it if it does not, and resolves when it has ended. */
  async #stop(): Promise<void> {
    const run = this.#run;
    if (run === undefined) return;
    if (run.silentMs >= DOWN_AFTER_MS && !run.gate.isLoading) void this.#terminate(run);
    else {
      run.handle.post({ kind: 'stop' });
      run.stopping ??= this.#clock.setTimer(STOP_GRACE_MS, () => {
        const fields = { limitMs: STOP_GRACE_MS };
        this.#dependencies.logger.warn(fields, 'the reader thread did not close in time');
        void this.#terminate(run);
      });
    }
    await run.ended;
  }

  /** Waits for a safe moment: while the thread loads, and for a while if it is in a critical step. */
  async #terminate({ gate, handle }: Run): Promise<void> {
    const endByMs = this.#clock.monotonic() + GATE_LIMIT_MS;
    while (!gate.close()) {
      if (!gate.isLoading && this.#clock.monotonic() >= endByMs) break;
      await sleep(this.#clock, GATE_LOOK_MS);
    }
    handle.terminate();
  }

  #ended(run: Run, error: unknown): void {
    this.#run = undefined;
    // The next one counts from zero.
    this.#reported.ended();
    this.#report.wake();
    if (this.#isClosing) {
      this.#serving?.reject(new AbortError('stopping'));
      return;
    }
    if (this.#isHeldBack) return;
    const reason = run.isGivenUp ? 'hung' : 'died';
    if (!run.isGivenUp) this.#cause = run.refusal ?? error ?? 'it ended by itself';
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
