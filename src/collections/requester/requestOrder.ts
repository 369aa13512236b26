import type { AccessNode } from '../../access/index.js';
import type { Timer } from '../../runtime/index.js';
import type { HeightRecord, HeightRequests } from '../heights/HeightRecord.js';
import type { Call, WantedCollection } from '../heights/WantedCollection.js';
import type { Fault } from '../faultReporter.js';
import type { CollectionRequesterDependencies, CollectionRequesterOptions } from './CollectionRequester.js';

/**
 * Pauses of a collection that was requested too early: the first, the growth of each next one, the longest, and their
 * number. Together they last nearly a second: a block is as late as its latest collection, and of a thousand collections
 * one may arrive half a second after the others.
 */
const EARLY_PAUSE = { minMs: 30, growth: 1.15, maxMs: 80, times: 14 };
/** The longest pause until every node was asked in both ways: one of them may be the only honest one. */
const UNTRIED_MAX_MS = 2_000;
/** No pause ends sooner after the failure than this: reasons to end one may come many times a second. */
const WAKE_AFTER_MS = 1_000;
/** Collections that a node has not fetched yet, and that are requested again at once because of one event. */
const MAX_AWAITED_WOKEN = 32;
/** Beyond this many pauses, they are searched only this often: with thousands, a search per delivery took minutes. */
const MANY = { pausing: 256, everyMs: 50 };
/** Within this distance of the head a block is new: its nodes may not have its collections yet. */
const NEW_HEIGHTS = 3;
/** How often to look whether heights that are held back still have to be. */
const HELD_BACK_LOOK_MS = 250;

type Parts = Pick<
  CollectionRequesterOptions,
  'workersPerHeight' | 'backoffMinMs' | 'backoffMaxMs' | 'holdBackMs'
> &
  Pick<CollectionRequesterDependencies, 'mcq' | 'clock' | 'random'> & {
    /** Something may be requested again. */
    readonly onDue: () => void;
  };

/**
 * What may be requested next, lowest height first: marks on the height records, and where to start looking. It decides
 * how long an id pauses after a failed attempt, and what ends the pause early: signs that an outage is over. An early end
 * allows one attempt; every further failure lengthens the next pause as usual. One timer for each pause, bounded by the
 * window.
 */
export function requestOrder(parts: Parts) {
  const { backoffMaxMs, backoffMinMs, clock, holdBackMs, mcq, onDue, random, workersPerHeight } = parts;
  /** No height below it may request now, and none above `highest`. */
  let lowest = 0;
  let highest = -1;
  /** Ids that pause before their next attempt, with monotonic milliseconds of the end. */
  const pauses = new Map<WantedCollection, { readonly timer: Timer; readonly atMs: number }>();
  /** Heights that are held back until the next look at them. */
  const held = new Set<HeightRecord>();
  let lookAtHeld: Timer | undefined;
  /** The timer of `lookAgainIn`. */
  let look: Timer | undefined;
  /** Nodes whose latest result was a failure. Bounded by the number of nodes. */
  const failing = new Set<string>();
  /** When the pauses were last searched. */
  let lookedAtMs = -Infinity;
  let headHeight = 0;

  const mayAsk = (record: HeightRecord): boolean => {
    const { requests, status } = record;
    if (requests === undefined || status !== 'collecting' || held.has(record)) return false;
    return requests.workers < workersPerHeight && requests.askable.size > 0;
  };
  const refresh = (record: HeightRecord): void => {
    if (!mayAsk(record)) return;
    const { height } = record;
    lowest = highest < 0 ? height : Math.min(lowest, height);
    highest = Math.max(highest, height);
  };
  /** The id may be requested (again), for the lowest height that lacks it: no call for it is under way, and it does not pause. */
  const makeAskable = (wanted: WantedCollection): void => {
    for (const record of wanted.heights) {
      requestsOf(record).askable.add(wanted);
      refresh(record);
    }
  };

  /** The id no longer pauses. */
  const endPause = (wanted: WantedCollection): void => {
    pauses.get(wanted)?.timer.cancel();
    pauses.delete(wanted);
  };
  const pause = (wanted: WantedCollection, delayMs: number): void => {
    endPause(wanted);
    const timer = clock.setTimer(Math.max(0, Math.ceil(delayMs)), () => {
      pauses.delete(wanted);
      makeAskable(wanted);
      onDue();
    });
    pauses.set(wanted, { timer, atMs: clock.monotonic() + delayMs });
  };
  /**
   * Ends pauses, except those that have just begun. What the node is expected to fetch is requested as soon as its pause may end:
   * there may be no further sign.
   */
  const wake = (several: readonly WantedCollection[]): void => {
    const nowMs = clock.monotonic();
    for (const wanted of several) {
      const pausing = pauses.get(wanted);
      if (pausing === undefined) continue;
      const inMs = wanted.failedAtMs + WAKE_AFTER_MS - nowMs;
      if (inMs <= 0) {
        endPause(wanted);
        makeAskable(wanted);
      } else if (isAwaited(wanted) && pausing.atMs > nowMs + inMs) pause(wanted, inMs);
    }
  };
  /**
   * There is a sign of life. Denied collections are requested again only if the node is expected to fetch them, lowest
   * height first and a few at a time: the first that arrives ends the pauses of the others.
   */
  const revive = (several: readonly WantedCollection[]): void => {
    const heightOf = ({ heights: [record] }: WantedCollection): number => record?.height ?? 0;
    const pausing = several.filter((wanted) => pauses.has(wanted));
    const awaited = pausing
      .filter(isAwaited)
      .sort((a, b) => heightOf(a) - heightOf(b) || a.failedAtMs - b.failedAtMs)
      .slice(0, MAX_AWAITED_WOKEN);
    wake(pausing.filter(({ lastNode = '', failures }) => failures?.get(lastNode)?.isDenial === false));
    wake(awaited);
  };
  /** At least the collections of the height that pause: it may lack thousands, of which few pause. */
  const pausingAt = (record: HeightRecord): readonly WantedCollection[] =>
    pauses.size >= record.missingCount
      ? mcq.missing(record.height)
      : [...pauses.keys()].filter((wanted) => wanted.isWantedBy(record));

  /**
   * "Not yet" for a new block is not a failure: it is requested again soon, a few times. Nor is "not found": many nodes cannot
   * distinguish a collection that they have not fetched yet from one that never existed.
   */
  const pauseMs = (
    wanted: WantedCollection,
    node: AccessNode,
    failure: Fault,
    isUntried: boolean,
  ): number => {
    const isEarly = failure.kind === 'denied' && wanted.newSinceMs !== undefined;
    if (isEarly && wanted.earlyAttempts < EARLY_PAUSE.times) {
      wanted.tries.declined(node);
      const earlyMs = EARLY_PAUSE.minMs * EARLY_PAUSE.growth ** wanted.earlyAttempts;
      wanted.earlyAttempts += 1;
      return Math.min(earlyMs, EARLY_PAUSE.maxMs, backoffMinMs);
    }
    // The node's own delay applies: the collection does not back off in addition.
    if (failure.kind === 'rate_limited') wanted.tries.declined(node);
    else wanted.tries.failed(node);
    const untriedMaxMs = Math.min(backoffMaxMs, Math.max(backoffMinMs, UNTRIED_MAX_MS));
    // A busy node does not count as a failure: the first pause is the shortest either way.
    const bounds = { minMs: backoffMinMs, maxMs: isUntried ? untriedMaxMs : backoffMaxMs };
    return wanted.tries.pauseMs(bounds, random);
  };

  /**
   * Calls `onDue` after this delay, whatever pauses; Infinity: cancels that. Whole milliseconds: a delay below the clock's
   * resolution would be due at once, again and again.
   */
  const lookAgainIn = (delayMs: number): void => {
    look?.cancel();
    look = delayMs === Infinity ? undefined : clock.setTimer(Math.ceil(delayMs), onDue);
  };

  return {
    makeAskable,
    endPause,
    lookAgainIn,
    /** Something pauses, which a new head may end. */
    awaitsHead: (): boolean => pauses.size > 0,
    /** About how many collections are wanted from the lowest height through this one. */
    countThrough: (height: number): number => {
      const { incompleteHeights, missingCollections } = mcq;
      if (incompleteHeights === 0) return 0;
      const through = Math.min(incompleteHeights, height - (mcq.lowest() ?? height) + 1);
      return (missingCollections / incompleteHeights) * through;
    },
    /** The lowest height that may request now, and the next id to request for it, oldest first. */
    next: (): { readonly record: HeightRecord; readonly wanted: WantedCollection } | undefined => {
      for (; lowest <= highest; lowest += 1) {
        const record = mcq.get(lowest);
        if (record === undefined || !mayAsk(record)) continue;
        for (const wanted of requestsOf(record).askable) return { record, wanted };
      }
      return undefined;
    },
    /** The collections that the height lacks may be requested from now on. */
    add: (record: HeightRecord): void => {
      const { askable } = requestsOf(record);
      const isNew = record.height > headHeight - NEW_HEIGHTS;
      for (const wanted of mcq.missing(record.height)) {
        wanted.isAskedFor = true;
        if (isNew && wanted.attempts === 0) wanted.newSinceMs ??= clock.monotonic();
        if (wanted.call === undefined && !pauses.has(wanted)) askable.add(wanted);
      }
      refresh(record);
    },
    /** Holds the height back until the next look. False where all its holds together would then last longer than `holdBackMs`. */
    hold: (record: HeightRecord): boolean => {
      const nowMs = clock.monotonic();
      const lookMs = Math.min(HELD_BACK_LOOK_MS, holdBackMs);
      if ((requestsOf(record).holdEndsAtMs ??= nowMs + holdBackMs) < nowMs + lookMs) return false;
      held.add(record);
      lookAtHeld ??= clock.setTimer(lookMs, () => {
        lookAtHeld = undefined;
        const looked = [...held];
        held.clear();
        looked.forEach(refresh);
        onDue();
      });
      return true;
    },
    sent: (wanted: WantedCollection, call: Call): void => {
      if (wanted.call !== undefined) throw new Error('a collection was requested twice at once');
      wanted.call = call;
      for (const { requests } of wanted.heights) requests?.askable.delete(wanted);
      requestsOf(call.sentFor).workers += 1;
    },
    returned: (wanted: WantedCollection): void => {
      const { call } = wanted;
      if (call === undefined) throw new Error('a call returned twice');
      wanted.call = undefined;
      requestsOf(call.sentFor).workers -= 1;
      refresh(call.sentFor);
    },
    /** The attempt failed, and the id pauses. `isUntried`: some node was not asked in every way. */
    failed: (wanted: WantedCollection, node: AccessNode, failure: Fault, isUntried: boolean): void => {
      wanted.failedAtMs = clock.monotonic();
      pause(wanted, pauseMs(wanted, node, failure, isUntried));
      if (failure.kind !== 'denied' && failure.kind !== 'rate_limited') failing.add(node.name);
    },
    /** The node delivered: it may now have the collection's siblings too, and its earlier failures may be over. */
    gave: (given: WantedCollection, { name }: AccessNode): void => {
      const nowMs = clock.monotonic();
      const isDue = pauses.size <= MANY.pausing || nowMs - lookedAtMs >= MANY.everyMs;
      if (isDue) lookedAtMs = nowMs;
      for (const record of given.heights)
        if (pauses.size > 0 && (isDue || record.missingCount <= MANY.pausing)) wake(pausingAt(record));
      const isBack = failing.delete(name);
      // What the node could not fetch for long, it now can.
      if (isBack || (isDue && isAwaited(given) && given.earlyAttempts >= EARLY_PAUSE.times))
        revive([...pauses.keys()].filter(({ lastNode }) => lastNode === name));
    },
    /** A moving head is a sign of life: what holds up the watermark is requested again. */
    sawHead: (height: number): void => {
      if (height <= headHeight) return;
      headHeight = height;
      const missing = mcq.lowest();
      if (missing !== undefined) revive(mcq.missing(missing));
    },
    stop: (): void => {
      for (const wanted of pauses.keys()) endPause(wanted);
      lookAtHeld?.cancel();
      lookAgainIn(Infinity);
    },
  };
}

function requestsOf(record: HeightRecord): HeightRequests {
  return (record.requests ??= { askable: new Set(), workers: 0, holdEndsAtMs: undefined });
}

/** The node asked last is expected to fetch it: it said so, or the block was new at the first request. */
function isAwaited({ failures, lastNode = '', newSinceMs }: WantedCollection): boolean {
  const last = failures?.get(lastNode);
  return last?.isDenial === true && (last.isPromised || newSinceMs !== undefined);
}
