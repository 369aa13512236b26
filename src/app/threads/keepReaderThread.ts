import type { AdmissionEnd, ForwardingAdmission } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { mirrorMetrics, type Logger, type Metrics, type MetricsSnapshot } from '../../observability/index.js';
import { AbortError, asError, doublingMs, EndGate, every } from '../../runtime/index.js';
import { isAbort, messageOf, OperatorError, sleep, within } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { callsOver, type Calls } from './calls.js';
import type { IndexerCalls, ReaderAddresses, ReaderCalls } from './messages.js';
import type { ReaderOptions, ReaderState } from './messages.js';
import type { ReaderHandle, StartReader } from './startWorker.js';

/** How often the thread is checked. The state is sent at least this often. */
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

/** What the thread is sent and may query. Everything is synchronous, except the admission of forwarded calls. */
export interface ReaderSources extends Pick<IndexerCalls, 'status' | 'momentAt' | 'damaged'> {
  readonly state: () => ReaderState;
  readonly admission: ForwardingAdmission;
}

/** One thread, from its start to its end. */
class Run {
  readonly gate = new EndGate();
  readonly handle: ReaderHandle;
  readonly thread: Calls<ReaderCalls>;
  readonly ended: Promise<void>;
  /** Ends each forwarded call that waits for admission or is under way. Bounded by the limits on forwarded calls. */
  readonly calls = new Map<number, (end: AdmissionEnd) => void>();
  /** A state was sent and is not acknowledged yet. */
  awaitsAck = false;
  /** As of the last acknowledgement: why its database does not answer. */
  trouble: string | undefined;
  /** Something has changed since that state. */
  hasChanged = false;
  /** How long an acknowledgement is overdue, as counted at each check; 0 when none is. */
  silentMs = 0;
  /** Monotonic; `undefined` until its servers listen. */
  listensSinceMs: number | undefined;
  /** Why it ends: the error it did not catch, or a reason for the operator why it cannot serve or is terminated. */
  cause: unknown;
  /** It hangs, and is terminated. */
  isGivenUp = false;

  constructor(
    start: (gate: SharedArrayBuffer) => ReaderHandle,
    serve: (run: Run) => IndexerCalls,
    onEnd: (run: Run) => void,
  ) {
    this.handle = start(this.gate.memory);
    this.thread = callsOver<ReaderCalls>(this.handle, serve(this));
    this.handle.on('error', (error) => (this.cause = error));
    this.ended = new Promise((resolve) => {
      this.handle.on('exit', () => {
        for (const id of [...this.calls.keys()]) this.over(id, 'other');
        onEnd(this);
        resolve();
      });
    });
  }

  get isServing(): boolean {
    return this.listensSinceMs !== undefined && !this.isGivenUp;
  }

  /** A forwarded call is over, or no longer waits for admission. */
  over(id: number, end: AdmissionEnd): void {
    const finish = this.calls.get(id);
    this.calls.delete(id);
    finish?.(end);
  }

  /** Waits for a safe moment: while the thread loads, and for a while if it is in a critical step. */
  async terminate(clock: Clock): Promise<void> {
    const endByMs = clock.monotonic() + GATE_LIMIT_MS;
    while (!this.gate.close() && (this.gate.isLoading || clock.monotonic() < endByMs))
      await sleep(clock, GATE_LOOK_MS);
    void this.handle.terminate();
  }
}

export type ReaderThread = ReturnType<typeof keepReaderThread>;

/**
 * Keeps a reader thread running: sends it the state of the index, answers its questions, and replaces it on the same ports when
 * it ends or hangs. Each state waits for the acknowledgement of the one before, which also serves as heartbeat. Indexing is not
 * affected. The thread is started at once: it loads its modules and waits for `serve`.
 */
export function keepReaderThread(
  options: () => ReaderOptions,
  dependencies: {
    readonly start: StartReader;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly metrics: Pick<Metrics, 'logLinesLost' | 'readersReplaced'>;
  },
) {
  const { clock, logger, metrics, start } = dependencies;
  /** The metrics of all threads so far. */
  const reported = mirrorMetrics();
  let scraping: Promise<unknown> | undefined;
  /** The ports that the first thread found: its successors listen on them. */
  let ports: Partial<Pick<DaemonConfig['api'], 'port' | 'grpcPort'>> = {};
  let sources: ReaderSources | undefined;
  let run: Run | undefined;
  let looking: Timer | undefined;
  let restart: Timer | undefined;
  /** Consecutive threads that ended soon after their start. */
  let failures = 0;
  /** Why the last thread ended. */
  let cause: unknown;
  let isClosing = false;
  let closing: Promise<void> | undefined;
  /** The successor of the thread must wait. */
  let isHeldBack = false;
  let serving:
    | { readonly resolve: (addresses: ReaderAddresses) => void; readonly reject: (error: unknown) => void }
    | undefined;

  const begin = (): void => {
    const { config, ...others } = options();
    const found = { ...config, api: { ...config.api, ...ports } };
    run = new Run((gate) => start({ ...others, config: found, gate }), serve, ended);
    void show(run);
  };

  /** The first state starts its servers. */
  const show = async (to: Run): Promise<void> => {
    if (sources === undefined) return;
    to.awaitsAck = true;
    to.trouble = await to.thread.ask(undefined, 'show', sources.state());
    to.awaitsAck = false;
    to.silentMs = 0;
    if (!to.hasChanged) return;
    to.hasChanged = false;
    void show(to);
  };

  const known = (): ReaderSources => {
    if (sources === undefined) throw new Error('the reader thread asked before it was sent any state');
    return sources;
  };

  /** The functions that a thread may call. It calls none before it was sent a state. */
  const serve = (from: Run): IndexerCalls => ({
    status: () => {
      // So that reads are at least as new as the status.
      void show(from);
      return known().status();
    },
    momentAt: (key) => known().momentAt(key),
    damaged: (damage) => known().damaged(damage),
    admit: async (id, node, call) => {
      const { calls, thread } = from;
      const withdraw = new AbortController();
      calls.set(id, () => withdraw.abort(new AbortError()));
      const asked = known().admission.admit(node, call, withdraw.signal);
      const outcome = await asked.catch((error: unknown): 'gone' => {
        if (!isAbort(error)) throw error;
        return 'gone';
      });
      if (typeof outcome === 'string') {
        calls.delete(id);
        return outcome;
      }
      if (!calls.has(id)) {
        // Cancelled while it was being admitted.
        outcome.over('other');
        return 'gone';
      }
      calls.set(id, (end) => outcome.over(end));
      outcome.onMakeWay(() => thread.tell('makeWay', id));
      return 'admitted';
    },
    over: (id, end) => from.over(id, end),
    listens: (addresses) => {
      from.listensSinceMs = clock.monotonic();
      const { api, grpc } = addresses;
      ports = { port: api.port, ...(grpc && { grpcPort: grpc.port }) };
      if (serving === undefined) logger.info(addresses, 'readers are served again');
      serving?.resolve(addresses);
      serving = undefined;
      // So that some of its metrics are known if it never answers again.
      void report(from);
    },
    refused: (exit, message) => {
      from.cause = message;
      serving?.reject(new OperatorError(exit, message));
    },
    log: (level, fields, message) => logger[level](fields, message),
    logLost: (records) => {
      metrics.logLinesLost.inc(records);
      logger.warn({ records }, 'log records of the reader thread were dropped');
    },
  });

  /** Takes over the metrics that a thread has counted so far. */
  const report = async (from: Run): Promise<void> => {
    const counted = await from.thread.ask(undefined, 'metrics');
    if (run === from) reported.update(counted);
  };

  /** The regular check: sends the state, or counts the silence. */
  const look = (): void => {
    if (run === undefined || run.isGivenUp) return;
    // Counted, not measured by the clock: a suspended process could receive nothing.
    if (run.awaitsAck) run.silentMs += LOOK_EVERY_MS;
    else void show(run);
    const stableAtMs = (run.listensSinceMs ?? Infinity) + STABLE_AFTER_MS;
    if (run.silentMs === 0 && clock.monotonic() >= stableAtMs) failures = 0;
    const limitMs = run.isServing ? HUNG_AFTER_MS : START_LIMIT_MS;
    if (run.silentMs < limitMs || isClosing) return;
    run.cause = `no answer for ${limitMs / 1_000} s`;
    run.isGivenUp = true;
    void run.terminate(clock);
  };

  /** Asks the thread to close its servers and end, terminates it if it does not, and resolves when it has ended. */
  const stop = async (): Promise<void> => {
    const stopped = run;
    if (stopped === undefined) return;
    if (stopped.silentMs >= DOWN_AFTER_MS && !stopped.gate.isLoading) void stopped.terminate(clock);
    else {
      stopped.thread.tell('stop');
      if ((await within(clock, STOP_GRACE_MS, stopped.ended)) === 'late') {
        logger.warn({ limitMs: STOP_GRACE_MS }, 'the reader thread did not close in time');
        void stopped.terminate(clock);
      }
    }
    await stopped.ended;
  };

  const ended = (last: Run): void => {
    run = undefined;
    // The next one counts from zero.
    reported.ended();
    if (isClosing) serving?.reject(new AbortError('stopping'));
    if (isClosing || isHeldBack) return;
    cause = last.cause ?? 'it ended by itself';
    // A thread that cannot start at all is the caller's problem.
    serving?.reject(asError(cause));
    if (serving !== undefined || sources === undefined) return;
    const reason = last.isGivenUp ? 'hung' : 'died';
    metrics.readersReplaced.inc({ reason });
    const restartInMs = failures === 0 ? 0 : doublingMs(RESTART_PAUSE, failures - 1);
    failures += 1;
    const error = cause instanceof Error ? { error: cause } : {};
    const fields = { reason, detail: messageOf(cause), restartInMs, ...error };
    logger.error(fields, 'the reader thread has ended');
    restart = clock.setTimer(restartInMs, begin);
  };

  const end = async (): Promise<void> => {
    isClosing = true;
    restart?.cancel();
    await stop();
    looking?.cancel();
  };

  begin();
  return {
    /** Call it when the index has changed, or the nodes to forward to. Cheap, and never throws. */
    notify: (): void => {
      if (run?.awaitsAck === true) run.hasChanged = true;
      else if (run !== undefined) void show(run);
    },
    /**
     * Resolves when the thread listens. Expected errors: OperatorError (an unusable address, and anything else that the
     * operator must fix); AbortError when it is closed first.
     */
    serve: (given: ReaderSources): Promise<ReaderAddresses> => {
      sources = given;
      return new Promise((resolve, reject) => {
        serving = { resolve, reject };
        if (isClosing) reject(new AbortError('stopping'));
        else if (run === undefined) reject(asError(cause));
        else {
          looking = every(clock, LOOK_EVERY_MS, look);
          void show(run);
        }
      });
    },
    /** Call it when the options have changed. */
    change: (): void => run?.thread.tell('change', options()),
    /** Ends the thread, runs an action that needs what it holds, and starts another thread. */
    without: async (action: () => Promise<void>): Promise<void> => {
      restart?.cancel();
      isHeldBack = true;
      await stop();
      cause = 'the store is opened again';
      try {
        await action();
      } finally {
        isHeldBack = false;
        if (!isClosing) begin();
      }
    },
    /** Why readers are not served; `undefined` while they are, and before the first start. */
    down: (): string | undefined => {
      if (serving !== undefined || isClosing || sources === undefined) return undefined;
      if (!run?.isServing)
        return `the reader thread has ended (${messageOf(run?.cause ?? cause)}); a new one is starting`;
      if (run.silentMs < DOWN_AFTER_MS) return undefined;
      const seconds = Math.floor(run.silentMs / 1_000);
      return `the reader thread has not answered for ${seconds} s; after ${HUNG_AFTER_MS / 1_000} s it is replaced`;
    },
    /** Why readers cannot be answered from their database; `undefined` while they can, as far as is known. */
    trouble: (): string | undefined => run?.trouble,
    /** The totals of all threads so far. Queries the current one, once for concurrent callers, with a short deadline. */
    metrics: async (): Promise<readonly MetricsSnapshot[]> => {
      if (run?.isServing) {
        scraping ??= within(clock, SCRAPE_LIMIT_MS, report(run)).finally(() => (scraping = undefined));
        await scraping;
      }
      return reported.all();
    },
    /** Closes the servers and ends the thread; if it does not answer, it is terminated. Idempotent. */
    close: (): Promise<void> => (closing ??= end()),
  };
}
