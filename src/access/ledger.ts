import { doublingMs } from '../runtime/index.js';
import type { Clock } from '../runtime/index.js';
import type { NodeFault, NodeHealth } from './types.js';

/** How long a node is asked after the others. */
const SET_ASIDE = { minMs: 10_000, maxMs: 300_000 };
/** Failures in a row before a node is set aside rather than merely asked later. */
const FAILURES_BEFORE_SET_ASIDE = 3;
/** A single failure moves a node behind the others for this long. */
const FAILING_MS = 10_000;
/** Weight of the newest latency in the average. */
const LATENCY_WEIGHT = 0.1;
/** A latency that was not measured again loses half its say in this time, so that a slow node is tried again. */
const LATENCY_HALF_LIFE_MS = 60_000;

/** What became of asking a node who it is. */
export type Identity = 'unknown' | 'usable' | 'foreign';

/**
 * The record of one node: who it is, how it behaves, how fast it answers. The node writes latencies, the callers
 * write successes and faults, and the order of asking is read from it. Time passes by being looked at; no timers.
 */
export class NodeLedger {
  identity: Identity = 'unknown';
  private readonly clock: Clock;
  private failures = 0;
  private failingUntilMs = -Infinity;
  private setAsides = 0;
  private setAsideUntilMs = -Infinity;
  private setAsideFor: NodeFault | undefined;
  private latencyMs: number | undefined;
  private latencyAtMs = 0;

  constructor(dependencies: { readonly clock: Clock }) {
    this.clock = dependencies.clock;
  }

  get health(): NodeHealth {
    if (this.identity === 'foreign') return 'foreign';
    if (this.identity === 'unknown') return 'unknown';
    const now = this.clock.monotonic();
    if (now < this.setAsideUntilMs) return 'set_aside';
    return now < this.failingUntilMs ? 'failing' : 'healthy';
  }

  /** Average latency of answered calls, fading while nothing is measured; 0 when nothing is known. */
  get expectedLatencyMs(): number {
    if (this.latencyMs === undefined) return 0;
    const ageMs = this.clock.monotonic() - this.latencyAtMs;
    return this.latencyMs * 0.5 ** (ageMs / LATENCY_HALF_LIFE_MS);
  }

  answeredIn(latencyMs: number): void {
    this.latencyMs =
      this.latencyMs === undefined
        ? latencyMs
        : this.latencyMs + LATENCY_WEIGHT * (latencyMs - this.latencyMs);
    this.latencyAtMs = this.clock.monotonic();
  }

  /**
   * The record is clean again. A node that is set aside for a lie serves the time first: answering one kind of
   * question does not take back a lie about another.
   */
  succeeded(): void {
    this.failures = 0;
    this.failingUntilMs = -Infinity;
    const now = this.clock.monotonic();
    if (this.setAsideFor === 'lied' && now < this.setAsideUntilMs) return;
    this.setAsides = 0;
    this.setAsideUntilMs = -Infinity;
    this.setAsideFor = undefined;
  }

  /**
   * Counts a fault. Lies and stale streams set the node aside at once, failures the third time in a row, and from
   * then on each time until a success. Returns for how long it is newly set aside, or `undefined`.
   */
  blame(fault: NodeFault): number | undefined {
    const now = this.clock.monotonic();
    // What is still set aside was asked for want of a better node: that must not drive the time up.
    if (now < this.setAsideUntilMs) return undefined;
    if (fault === 'failing') {
      this.failures += 1;
      this.failingUntilMs = now + FAILING_MS;
      if (this.failures < FAILURES_BEFORE_SET_ASIDE) return undefined;
    }
    const periodMs = doublingMs(SET_ASIDE, this.setAsides);
    this.setAsides += 1;
    this.setAsideUntilMs = now + periodMs;
    this.setAsideFor = fault;
    return periodMs;
  }
}

/** What the order of asking looks at. */
export interface Candidate {
  readonly ledger: NodeLedger;
  /** Calls under way. */
  readonly inFlight: number;
  /** An answered rate limit holds it back. */
  readonly heldBack: boolean;
}

const RANKS: Record<NodeHealth, number> = { healthy: 0, failing: 1, set_aside: 2, unknown: 3, foreign: 4 };

/** Best first: by health, then those no rate limit holds back, then by the latency to expect with the load they have. */
export function inOrderOfAsking<T extends Candidate>(candidates: readonly T[]): readonly T[] {
  if (candidates.length < 2) return candidates;
  return candidates
    .map((candidate) => ({
      candidate,
      rank: RANKS[candidate.ledger.health],
      heldBack: candidate.heldBack ? 1 : 0,
      expectedMs: candidate.ledger.expectedLatencyMs * (1 + candidate.inFlight),
      inFlight: candidate.inFlight,
    }))
    .sort(
      (a, b) =>
        a.rank - b.rank || a.heldBack - b.heldBack || a.expectedMs - b.expectedMs || a.inFlight - b.inFlight,
    )
    .map(({ candidate }) => candidate);
}
