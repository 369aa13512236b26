import type { Clock, Timer } from '../runtime/index.js';
import type { Logger } from './logger.js';

/** Why the daemon is not ready; stable names, alert rules depend on them. */
export type ReadinessCode =
  /** Not all parts are up, or the head is not known yet. */
  | 'starting'
  /** More than `readyMaxLag` heights behind the head. */
  | 'behind'
  /** No access node told its head for `stalledAfterMs`. */
  | 'upstream_unreachable'
  /** Execution data is the only source and no node serves it. */
  | 'edi_unavailable'
  /** A finalized block does not continue the block below it, or no node has the last block of a spork that the table names. */
  | 'parent_mismatch'
  /** A height that no source could complete for longer than `requester.unresolvableAfterMs`. */
  | 'unresolvable'
  /** There is work below the head, and no height became durable for `stalledAfterMs`. */
  | 'store_stalled'
  | 'stopping';

/** One reason why the daemon is not ready. */
export interface ReadinessReason {
  readonly code: ReadinessCode;
  /** One sentence for a person, with the numbers of now. */
  readonly message: string;
  readonly height?: number;
  /** Whole seconds since the reason arose. */
  readonly sinceSeconds: number;
}

/** The body of `/readyz`. Ready means: no reason. */
export interface Readiness {
  readonly ready: boolean;
  readonly reasons: readonly ReadinessReason[];
}

/** What a probe that found something says of it. */
export interface Finding {
  readonly message: string;
  /** The message without ids, for the log, where those belong to the debug level. Default: the message. */
  readonly logged?: string;
  readonly height?: number;
}

/** What the monitor asks the daemon at each turn. Every answer must be at hand: no waiting, no store, no network. */
export interface HealthProbes {
  phase(): 'starting' | 'running' | 'stopping';
  latestIndexedHeight(): number;
  /** The finalized head; `undefined` until a node told it. */
  headHeight(): number | undefined;
  /** Monotonic milliseconds at which a node last told its head, moved or not; `undefined` before the first time. */
  headAnsweredAtMs(): number | undefined;
  /** Why nodes do not answer, as far as they are known to be silent; `undefined` when none is. */
  upstreamTrouble(): string | undefined;
  /** Asked only when execution data is the sole source: does any node serve it now? */
  executionDataAvailable(): boolean;
  parentMismatch(): Finding | undefined;
  /** The lowest unresolvable height. */
  unresolvable(): Finding | undefined;
  /** Monotonic milliseconds at which the batch in hand was given to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined;
}

export interface HealthOptions {
  /** Heights behind the head that still count as ready. */
  readonly readyMaxLag: number;
  /** Default 60,000. */
  readonly stalledAfterMs?: number;
  /** Default false: a missing execution-data stream is no reason while collections can be asked for. */
  readonly ediOnly?: boolean;
}

const STALLED_AFTER_MS = 60_000;
/** How often reasons are looked for when nobody asks: edges are that exact. */
const TURN_MS = 1000;

/** Reasons that belong to a normal start, catch-up and stop: their edges are told, not warned of. */
const ordinary: ReadonlySet<ReadinessCode> = new Set(['starting', 'behind', 'stopping']);

/**
 * Decides whether the daemon is ready, and says why it is not. A still head that answers is a quiet chain, never an
 * alarm. It looks once a second from `start()` on, so that it notices when progress ends, and logs the edges only.
 */
export class HealthMonitor {
  readonly #options: Required<HealthOptions>;
  readonly #clock: Clock;
  readonly #probes: HealthProbes;
  readonly #logger: Logger | undefined;
  readonly #startedAtMs: number;
  /** When each standing reason arose, in monotonic milliseconds. */
  readonly #since = new Map<ReadinessCode, number>();
  #watermark: number | undefined;
  #progressAtMs: number;
  #timer: Timer | undefined;

  constructor(
    options: HealthOptions,
    dependencies: { readonly clock: Clock; readonly probes: HealthProbes; readonly logger?: Logger },
  ) {
    this.#options = { stalledAfterMs: STALLED_AFTER_MS, ediOnly: false, ...options };
    this.#clock = dependencies.clock;
    this.#probes = dependencies.probes;
    this.#logger = dependencies.logger;
    this.#startedAtMs = this.#clock.monotonic();
    this.#progressAtMs = this.#startedAtMs;
  }

  /** Begins to look by itself. */
  start(): void {
    if (this.#timer !== undefined) return;
    const turn = (): void => {
      this.readiness();
      this.#timer = this.#clock.setTimer(TURN_MS, turn);
    };
    turn();
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** The state of now. */
  readiness(): Readiness {
    const nowMs = this.#clock.monotonic();
    this.#watchProgress(nowMs);
    const found = this.#findings(nowMs);
    this.#keepEdges(found, nowMs);
    const reasons = [...found].map(([code, { message, height }]): ReadinessReason => {
      const sinceSeconds = wholeSeconds(nowMs - (this.#since.get(code) ?? nowMs));
      return { code, message, ...(height === undefined ? {} : { height }), sinceSeconds };
    });
    return { ready: reasons.length === 0, reasons };
  }

  /** A daemon without work below the head makes progress by definition. */
  #watchProgress(nowMs: number): void {
    const watermark = this.#probes.latestIndexedHeight();
    const head = this.#probes.headHeight();
    const idle = this.#probes.phase() !== 'running' || head === undefined || watermark >= head;
    if (idle || watermark !== this.#watermark) this.#progressAtMs = nowMs;
    this.#watermark = watermark;
  }

  #findings(nowMs: number): ReadonlyMap<ReadinessCode, Finding> {
    const found = new Map<ReadinessCode, Finding>();
    const add = (code: ReadinessCode, finding: Finding | undefined): void => {
      if (finding !== undefined) found.set(code, finding);
    };
    const phase = this.#probes.phase();
    if (phase === 'stopping') {
      add('stopping', { message: 'the daemon is stopping' });
      return found;
    }
    const head = this.#probes.headHeight();
    if (phase === 'starting') add('starting', { message: `the daemon is starting${this.#trouble()}` });
    else if (head === undefined)
      add('starting', { message: `no access node has told its finalized head yet${this.#trouble()}` });
    add('upstream_unreachable', this.#upstream(nowMs));
    if (phase === 'starting' || head === undefined) return found;

    add('behind', this.#behind(head));
    add('store_stalled', this.#stalled(nowMs));
    if (this.#options.ediOnly && !this.#probes.executionDataAvailable()) {
      add('edi_unavailable', {
        message: 'no access node serves execution data, and with ediOnly there is no other source',
      });
    }
    add('parent_mismatch', this.#probes.parentMismatch());
    add('unresolvable', this.#probes.unresolvable());
    return found;
  }

  #upstream(nowMs: number): Finding | undefined {
    const silentMs = nowMs - (this.#probes.headAnsweredAtMs() ?? this.#startedAtMs);
    if (silentMs < this.#options.stalledAfterMs) return undefined;
    const seconds = wholeSeconds(silentMs);
    return {
      message: `no access node has told its head for ${seconds} seconds${this.#trouble()}; see that accessNodes names nodes that run and can be reached from here`,
    };
  }

  #trouble(): string {
    const trouble = this.#probes.upstreamTrouble();
    return trouble === undefined ? '' : ` (${trouble})`;
  }

  #behind(head: number): Finding | undefined {
    const watermark = this.#probes.latestIndexedHeight();
    const lag = head - watermark;
    if (lag <= this.#options.readyMaxLag) return undefined;
    return {
      message: `${lag} heights behind the head ${head}; ready at ${this.#options.readyMaxLag} or fewer`,
      height: watermark,
    };
  }

  #stalled(nowMs: number): Finding | undefined {
    const stillMs = nowMs - this.#progressAtMs;
    if (stillMs < this.#options.stalledAfterMs) return undefined;
    const commitAtMs = this.#probes.commitStartedAtMs();
    const culprit =
      commitAtMs === undefined
        ? 'the lowest height still waits for its collections, or for a node that serves it'
        : `the store has been writing one batch for ${wholeSeconds(nowMs - commitAtMs)} seconds`;
    return {
      message: `no height became durable for ${wholeSeconds(stillMs)} seconds although there is work below the head: ${culprit}`,
      height: this.#probes.latestIndexedHeight() + 1,
    };
  }

  #keepEdges(found: ReadonlyMap<ReadinessCode, Finding>, nowMs: number): void {
    const wasReady = this.#since.size === 0;
    for (const [code, sinceMs] of this.#since) {
      if (found.has(code)) continue;
      this.#since.delete(code);
      this.#logger?.info({ code, afterSeconds: wholeSeconds(nowMs - sinceMs) }, 'reason gone');
    }
    if (found.size === 0 && !wasReady) this.#logger?.info({}, 'ready');
    for (const [code, finding] of found) {
      if (this.#since.has(code)) continue;
      this.#since.set(code, nowMs);
      const fields = { code, detail: finding.logged ?? finding.message, height: finding.height };
      if (ordinary.has(code)) this.#logger?.info(fields, 'not ready');
      else this.#logger?.warn(fields, 'not ready');
    }
  }
}

function wholeSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}
