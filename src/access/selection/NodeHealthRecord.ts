import { doublingMs, RunningAverage, type Clock } from '../../runtime/index.js';
import type { AccessMethod, NodeFault, NodeHealth } from '../types.js';

/** The bounds of a penalty: how long a call, or a node, is asked last, and an equivalent call is used instead. */
const PENALTY = { minMs: 10_000, maxMs: 300_000 };
/** Consecutive failures before a call is penalized rather than just asked later. */
const FAILURES_BEFORE_PENALTY = 2;
/** A single failure moves a call behind the others for this long. */
const FAILING_MS = 10_000;

/** Why a call, or a node, is not healthy. */
export type CallRecord = Readonly<NonNullable<CallHealth['record']>>;

/**
 * The record of one call to a node, or of the node as a whole. Time is evaluated when read; there are no timers.
 */
export class CallHealth {
  readonly #clock: Clock;
  #failures = 0;
  #failingUntilMs = -Infinity;
  #penalties = 0;
  #penaltyUntilMs = -Infinity;
  #penaltyFor: NodeFault | undefined;
  #failedAtMs = -Infinity;
  #row:
    | {
        readonly count: number;
        /** The message of the node, or what was wrong with its answer. */
        readonly said: string;
        /** Monotonic milliseconds of the first of these faults. */
        readonly sinceMs: number;
      }
    | undefined;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  get state(): 'healthy' | 'failing' | 'set_aside' {
    const now = this.#clock.monotonic();
    if (now < this.#penaltyUntilMs) return 'set_aside';
    return now < this.#failingUntilMs ? 'failing' : 'healthy';
  }

  /** Why it is not healthy; `undefined` while it is. The record expires unless the call fails again before. */
  get record() {
    const { state } = this;
    if (state === 'healthy' || this.#row === undefined) return undefined;
    const { said: reason, count, sinceMs } = this.#row;
    const nowMs = this.#clock.monotonic();
    const untilMs = state === 'set_aside' ? this.#penaltyUntilMs : this.#failingUntilMs;
    const [sinceSeconds, endsInSeconds] = [(nowMs - sinceMs) / 1_000, (untilMs - nowMs) / 1_000];
    return { state, reason, count, sinceSeconds, endsInSeconds };
  }

  /** When it failed last; -Infinity if never, or not since its last success. */
  get failedAtMs(): number {
    return this.#failedAtMs;
  }

  /** The equivalent call fails as well: this one may be used again at once. */
  endPenalty(): void {
    this.#penaltyUntilMs = -Infinity;
  }

  /** Clears the record. A penalty for a lie still runs its full time: one good answer does not undo a lie. */
  succeeded(): void {
    this.#failures = 0;
    this.#failingUntilMs = -Infinity;
    this.#failedAtMs = -Infinity;
    if (this.#penaltyFor === 'lied' && this.#clock.monotonic() < this.#penaltyUntilMs) return;
    this.#row = undefined;
    this.#penalties = 0;
    this.#penaltyUntilMs = -Infinity;
    this.#penaltyFor = undefined;
  }

  /**
   * Counts a fault. Lies and silences are penalized at once, failures the second time in a row, and from then on each
   * time until a success. Returns the length of a new penalty, or `undefined`.
   */
  report(fault: NodeFault, said: string): number | undefined {
    const now = this.#clock.monotonic();
    this.#row = { said, count: (this.#row?.count ?? 0) + 1, sinceMs: this.#row?.sinceMs ?? now };
    this.#failedAtMs = now;
    this.#failures += 1;
    if (fault !== 'lied') this.#failingUntilMs = now + FAILING_MS;
    // A penalized call is made only if nothing better is left: that must not extend the penalty.
    if (now < this.#penaltyUntilMs) return undefined;
    if (fault === 'failing' && this.#failures < FAILURES_BEFORE_PENALTY) return undefined;
    const periodMs = doublingMs(PENALTY, this.#penalties);
    this.#penalties += 1;
    this.#penaltyUntilMs = now + periodMs;
    this.#penaltyFor = fault;
    return periodMs;
  }
}

/** Weight of the newest latency in the average. */
const LATENCY_WEIGHT = 0.1;
/** A latency that is not measured again loses half its weight in this time, so that a slow node is tried again. */
const LATENCY_HALF_LIFE_MS = 60_000;

/** The outcome of a node's handshake. */
export type Identity = 'unknown' | 'usable' | 'foreign';

/**
 * The record of one node: its identity, the health of the node and of each call, its latency. The node writes
 * latencies, callers write successes and faults, and the order of asking is read from it. A fault counts against the
 * call; lies and a failing handshake count against the whole node.
 */
export class NodeHealthRecord {
  identity: Identity = 'unknown';
  readonly #clock: Clock;
  readonly #whole: CallHealth;
  /** Bounded by the number of methods. */
  readonly #calls = new Map<AccessMethod, CallHealth>();
  readonly #latencyMs = new RunningAverage({ weight: LATENCY_WEIGHT });
  #latencyAtMs = 0;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
    this.#whole = new CallHealth(dependencies);
  }

  get health(): NodeHealth {
    return this.identity === 'usable' ? this.#whole.state : this.identity;
  }

  healthOf(method: AccessMethod | undefined): NodeHealth {
    const whole = this.health;
    const call = method === undefined ? undefined : this.#calls.get(method)?.state;
    return call !== undefined && RANKS[call] > RANKS[whole] ? call : whole;
  }

  /** The call is penalized, and the other one has not failed since. While both fail they alternate. */
  isBetterAskedBy(other: AccessMethod, method: AccessMethod): boolean {
    const call = this.#calls.get(method);
    return call?.state === 'set_aside' && (this.#calls.get(other)?.failedAtMs ?? -Infinity) < call.failedAtMs;
  }

  /** Average latency of answered calls, fading while nothing is measured; 0 when unknown. */
  get expectedLatencyMs(): number {
    const ageMs = this.#clock.monotonic() - this.#latencyAtMs;
    return (this.#latencyMs.value ?? 0) * 0.5 ** (ageMs / LATENCY_HALF_LIFE_MS);
  }

  /** Average latency of answered calls; `undefined` until one was. */
  get averageLatencyMs(): number | undefined {
    return this.#latencyMs.value;
  }

  answeredIn(latencyMs: number): void {
    this.#latencyMs.observe(latencyMs);
    this.#latencyAtMs = this.#clock.monotonic();
  }

  /**
   * Clears the record of the call and of the node, unless it is penalized for a lie. No method: the handshake
   * succeeded.
   */
  succeeded(method?: AccessMethod): void {
    this.#whole.succeeded();
    if (method !== undefined) this.#calls.get(method)?.succeeded();
  }

  /**
   * Counts a fault of a call; a lie counts against the node as well. No method: the handshake failed. Returns the
   * length of a new penalty of the call or the node, or `undefined`.
   */
  report(fault: NodeFault, said: string, method?: AccessMethod): number | undefined {
    if (method === undefined) return this.#whole.report(fault, said);
    const call = this.#calls.get(method) ?? new CallHealth({ clock: this.#clock });
    this.#calls.set(method, call);
    const penaltyMs = call.report(fault, said);
    return fault === 'lied' ? this.#whole.report(fault, said) : penaltyMs;
  }

  /** Why the node as a whole is not healthy; `undefined` while it is. */
  get record(): CallRecord | undefined {
    return this.#whole.record;
  }

  callRecords(): readonly (CallRecord & { readonly method: AccessMethod })[] {
    return [...this.#calls].flatMap(([method, { record }]) =>
      record === undefined ? [] : { method, ...record },
    );
  }
}

/** What decides the order of asking. */
export interface Candidate {
  readonly healthRecord: NodeHealthRecord;
  readonly client: {
    readonly inFlight: number;
    /** True while a rate limit that the node answered delays its calls. */
    readonly heldBack: boolean;
  };
}

const RANKS: Record<NodeHealth, number> = { healthy: 0, failing: 1, set_aside: 2, unknown: 3, foreign: 4 };

/** The health of something that needs two calls. */
export function worseOf(a: NodeHealth, b: NodeHealth): NodeHealth {
  return RANKS[a] < RANKS[b] ? b : a;
}

/**
 * Best first for a call: by health of call and node, then those not held back by a rate limit, then by expected latency
 * under their present load.
 */
export function inOrderOfAsking<T extends Candidate>(all: readonly T[], method?: AccessMethod): readonly T[] {
  if (all.length < 2) return all;
  return all
    .map((candidate) => {
      const { client, healthRecord } = candidate;
      const { heldBack, inFlight } = client;
      const expectedMs = healthRecord.expectedLatencyMs * (1 + inFlight);
      const rank = RANKS[healthRecord.healthOf(method)];
      return { candidate, by: [rank, Number(heldBack), expectedMs, inFlight] };
    })
    .sort((a, b) => a.by.map((value, at) => value - (b.by[at] ?? 0)).find((less) => less !== 0) ?? 0)
    .map(({ candidate }) => candidate);
}
