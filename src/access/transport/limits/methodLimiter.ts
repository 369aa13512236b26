import { doublingMs, unlessAborted, type Clock, type Timer } from '../../../runtime/index.js';

/** Pause after the node answered with a rate limit: short, doubling while it keeps doing so. */
const PAUSE = { minMs: 250, maxMs: 4_000 };
/** The share of the rate that remains after that. */
const RATE_CUT = 0.5;
/** The least adapted rate, and the least share of a process. */
const MIN_RATE_PER_SECOND = 1;
/** Recovery per second at full pace, as a share of the rate at which the limit was hit. */
const RECOVERY_SHARE = 0.05;
/** What each success adds to a rate that doubles every second at full pace. */
const DOUBLING_STEP = Math.LN2;
/** After this many consecutive refusals, the last ones of single calls, the rate is not the reason. */
const REFUSALS_OF_EVERYTHING = 4;
/**
 * Without a configured rate, the adapted one is dropped once it reaches this multiple of the rate at which the limit
 * was hit.
 */
const RELEASE_MULTIPLE = 2;
/** Calls that may be sent at once after a quiet time, in seconds of the rate (at least one call). */
const BURST_SECONDS = 0.1;
const SECOND_MS = 1_000;

/**
 * Admits one call, and is handed back with its outcome: how often the rate was cut before, as the answer to an older
 * call says nothing about the present rate.
 */
type Permit = number;

/**
 * The ranks of calls and streams, highest priority first: for the live range; forwarded, and streams of what can also be
 * polled; for history.
 */
export const callRanks = ['live', 'spare', 'history'] as const;
export type CallRank = (typeof callRanks)[number];

/** Calls that history leaves to the other ranks, where the burst allows more, so that they need not wait for it. */
const LEFT_BY_HISTORY = 1;

export type MethodLimiter = ReturnType<typeof methodLimiter>;

/**
 * Paces the calls of one method to one access node: a token bucket, and a queue of callers for each rank.
 *
 * The bucket is filled at the configured rate, adapted by the node's own "rate limit
 * reached" answers. Each such answer holds the method back (250 ms doubling to 4 s) and halves the rate, which then grows
 * with every successful call (additive increase, multiplicative decrease). Consecutive refusals without a success between
 * them are one episode. It began at a rate that was too high for the node: half of that is safe, and is reached again by
 * doubling. If the node refused everything for a while, or a call a second, our rate was not the reason: it doubles until the
 * next refusal.
 */
export function methodLimiter({
  clock,
  maxWaiting,
  ratePerSecond,
  sharers = () => 1,
}: {
  /** Calls per second; 0 = no limit of ours. */
  readonly ratePerSecond: number;
  /** Processes that share the rate, this one included. Default: it alone. */
  readonly sharers?: (() => number) | undefined;
  /** Callers of a rank that may wait at once. */
  readonly maxWaiting: number;
  readonly clock: Clock;
}) {
  /** Below Infinity while the node's answers hold the rate below the configured one (or below no limit). */
  let adaptedRate = Infinity;
  /** The rate at which the node first refused in the present episode. */
  let ceiling = 0;
  /** Below this rate the adapted one doubles every second. */
  let doublesBelow = 0;
  let pausedUntilMs = -Infinity;
  let pauses = 0;
  let cuts = 0;
  /** Calls sent recently, each weighted less the older it is: at a steady pace, those of a second. */
  let sent = 0;
  let sentAtMs = 0;
  /** By how many calls the bucket was short of full at `usedAtMs`. */
  let used = 0;
  let usedAtMs = 0;
  /** For each rank, the functions that admit its callers: called only while all queues before it are empty. */
  const queues = new Map<CallRank, Set<() => void>>();
  /** The next look at the queues. */
  let timer: Timer | undefined;

  /** Milliseconds for which a rate limit that the node answered still holds calls back; 0 = none does. */
  const pauseMs = (): number => Math.max(0, pausedUntilMs - clock.monotonic());

  /** This process's share of the configured rate. */
  const configuredRate = (): number =>
    ratePerSecond <= 0
      ? Infinity
      : Math.max(Math.min(ratePerSecond, MIN_RATE_PER_SECOND), ratePerSecond / Math.max(1, sharers()));
  const rate = (): number => Math.min(adaptedRate, configuredRate());
  const known = (perSecond: number): number | undefined => (perSecond === Infinity ? undefined : perSecond);

  /** Calls that may be sent at once after a quiet time. */
  const burstOf = (perSecond: number): number => Math.max(1, perSecond * BURST_SECONDS);

  const refusesEverything = (): boolean => pauses >= REFUSALS_OF_EVERYTHING;

  /** The number of waiting callers of the rank and of all ranks before it. */
  const waitingBefore = (rank: CallRank): number => {
    const ranks = callRanks.slice(0, callRanks.indexOf(rank) + 1);
    return ranks.reduce((sum, each) => sum + (queues.get(each)?.size ?? 0), 0);
  };

  /** By how many calls the bucket is short of full, if it was filled at this rate. */
  const usedBy = (perSecond: number): number => {
    const filledMs = Math.max(0, clock.monotonic() - usedAtMs);
    return Math.max(0, used - (filledMs / SECOND_MS) * perSecond);
  };

  const sentInSecond = (): number => sent * Math.exp((sentAtMs - clock.monotonic()) / SECOND_MS);

  /** Milliseconds until a call of the rank may be sent behind this many others. Default: all that wait already. */
  const delayMs = (rank: CallRank = 'live', others = waitingBefore(rank)): number => {
    const perSecond = rate();
    if (perSecond === Infinity) return pauseMs();
    const burst = burstOf(perSecond);
    const left = rank === 'history' ? Math.min(LEFT_BY_HISTORY, burst - 1) : 0;
    const missing = usedBy(perSecond) + others + 1 + left - burst;
    return Math.max(pauseMs(), (missing / perSecond) * SECOND_MS);
  };

  const take = (): Permit => {
    const nowMs = clock.monotonic();
    sent = sentInSecond() + 1;
    sentAtMs = nowMs;
    const perSecond = rate();
    if (perSecond !== Infinity) used = usedBy(perSecond) + 1;
    usedAtMs = Math.max(usedAtMs, nowMs);
    return cuts;
  };

  /**
   * Admits the callers whose calls may be sent now, and runs again when the next one may. Call it after every change
   * that may admit a caller sooner.
   */
  const admitWaiting = (): void => {
    timer?.cancel();
    for (const rank of callRanks) {
      for (const admit of queues.get(rank) ?? []) {
        // Whole milliseconds, rounded up: a timer that fires a fraction early would only be set again.
        const inMs = Math.ceil(delayMs(rank, 0));
        if (inMs > 0) {
          timer = clock.setTimer(inMs, admitWaiting);
          return;
        }
        admit();
      }
    }
  };

  return {
    /** True while a rate limit that the node answered holds every call back. */
    heldBack: (): boolean => pauseMs() > 0,
    /** True while the node has refused so many consecutive calls that the rate is not the reason. */
    refusesEverything,
    /** `undefined` while nothing limits the calls. */
    limit: () =>
      rate() === Infinity && pauseMs() === 0
        ? undefined
        : {
            /** Calls per second that may be sent now; `null` = unlimited. */
            ratePerSecond: known(rate()) ?? null,
            /** The node's answers hold the rate down. */
            isLearned: adaptedRate !== Infinity,
            pauseSeconds: pauseMs() / 1_000,
            waiting: waitingBefore('history'),
          },
    delayMs,
    /**
     * A permit if a call may be sent now, else the promise of one: first come, first served within a rank, after all ranks
     * before it. `undefined`: no further caller of the rank may wait. Expected errors: the signal's abort reason.
     */
    acquire: (signal?: AbortSignal, rank: CallRank = 'live'): Permit | Promise<Permit> | undefined => {
      if (waitingBefore(rank) === 0 && delayMs(rank) === 0) return take();
      const queue = queues.get(rank) ?? new Set();
      queues.set(rank, queue);
      if (queue.size >= maxWaiting) return undefined;
      return unlessAborted(signal, (resolve) => {
        const admit = (): void => resolve(take());
        queue.add(admit);
        admitWaiting();
        return () => {
          queue.delete(admit);
          if (waitingBefore('history') === 0) timer?.cancel();
        };
      });
    },
    /**
     * The node answered the call: the next pause is short again, and the adapted rate grows. True when it had refused
     * everything until then.
     */
    succeeded: (permit: Permit): boolean => {
      if (permit !== cuts) return false;
      const wasShut = refusesEverything();
      pauses = 0;
      if (adaptedRate === Infinity) return wasShut;
      const isDoubling = adaptedRate < doublesBelow;
      adaptedRate += isDoubling ? DOUBLING_STEP : (RECOVERY_SHARE * ceiling) / adaptedRate;
      const enough = known(configuredRate()) ?? ceiling * RELEASE_MULTIPLE;
      if (adaptedRate >= enough) adaptedRate = Infinity;
      admitWaiting();
      return wasShut;
    },
    /** The node refused the call because of its rate limit. Of several calls under way together only the first counts. */
    rateLimited: (permit: Permit): void => {
      if (permit !== cuts) return;
      const refusedRate = Math.min(rate(), Math.max(sentInSecond(), MIN_RATE_PER_SECOND));
      if (pauses === 0) {
        ceiling = refusedRate;
        doublesBelow = refusedRate * RATE_CUT;
      }
      adaptedRate = Math.min(Math.max(MIN_RATE_PER_SECOND, refusedRate * RATE_CUT), configuredRate());
      cuts += 1;
      pausedUntilMs = clock.monotonic() + doublingMs(PAUSE, pauses);
      pauses += 1;
      if (refusesEverything() || refusedRate <= MIN_RATE_PER_SECOND) doublesBelow = Infinity;
      used = burstOf(adaptedRate) - 1;
      usedAtMs = pausedUntilMs;
    },
  };
}
