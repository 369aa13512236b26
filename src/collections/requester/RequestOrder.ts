import type { AccessNode } from '../../access/index.js';
import type { Timer } from '../../runtime/index.js';
import { HeightRecord, type HeightRequests } from '../heights/HeightRecord.js';
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
/** Collections that a node has yet to fetch, and that are requested again at once because of one event. */
const MAX_AWAITED_WOKEN = 32;
/** Where more than so many pause, they are looked through so often at most: with thousands, a look at each delivery took minutes. */
const MANY = { pausing: 256, everyMs: 50 };

type Parts = Pick<CollectionRequesterOptions, 'workersPerHeight' | 'backoffMinMs' | 'backoffMaxMs'> &
  Pick<CollectionRequesterDependencies, 'mcq' | 'clock' | 'random'> & {
    /** Something may be requested again. */
    readonly onDue: () => void;
  };

/**
 * What may be requested next, lowest height first: marks on the height records, and where to start looking. It knows how long an
 * id pauses after a failed attempt, and what ends the pause early: signs that an outage is over. An early
 * end allows one attempt; every further failure lengthens the next pause as usual. One timer for each wait: the window
 * bounds them.
 */
export class RequestOrder {
  readonly #parts: Parts;
  /** No height below it may request now, and none above `#highest`. */
  #lowest = 0;
  #highest = -1;
  /** Ids that pause before their next attempt and heights that are held back, with monotonic milliseconds of the end. */
  readonly #waits = new Map<
    WantedCollection | HeightRecord,
    { readonly timer: Timer; readonly atMs: number }
  >();
  /** When to look again, whatever waits. */
  #look: Timer | undefined;
  /** Nodes whose latest result was a failure. Bounded by the number of nodes. */
  readonly #failing = new Set<string>();
  /** The lowest height pauses for collections that their node is expected to fetch. */
  #awaitsFetched = false;
  /** When many were looked through last. */
  #lookedAtMs = -Infinity;
  #headHeight = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get headHeight(): number {
    return this.#headHeight;
  }

  /** A new head would end pauses: some node failed, and has delivered nothing since, or has yet to fetch something. */
  get awaitsHead(): boolean {
    return this.#failing.size > 0 || this.#awaitsFetched;
  }

  wantedAt(height: number): readonly WantedCollection[] {
    return this.#parts.mcq.missingIds(height).flatMap((id) => this.#parts.mcq.wanted(id) ?? []);
  }

  /** About how many collections are wanted from the lowest height through this one. */
  countThrough(height: number): number {
    const { incompleteHeights, missingCollections } = this.#parts.mcq;
    if (incompleteHeights === 0) return 0;
    const through = Math.min(incompleteHeights, height - (this.#parts.mcq.lowest() ?? height) + 1);
    return (missingCollections / incompleteHeights) * through;
  }

  /** The lowest height that may request now, and the next id to request for it, oldest first. */
  next(): { readonly record: HeightRecord; readonly wanted: WantedCollection } | undefined {
    for (; this.#lowest <= this.#highest; this.#lowest += 1) {
      const record = this.#parts.mcq.get(this.#lowest);
      if (record === undefined || !this.#mayAsk(record)) continue;
      for (const wanted of requestsOf(record).askable) return { record, wanted };
    }
    return undefined;
  }

  /** The collections that the height lacks may be requested from now on. */
  add(record: HeightRecord): void {
    for (const wanted of this.wantedAt(record.height)) {
      const [lowest = record, heir] = wanted.heights;
      if (!wanted.isAskedFor) {
        wanted.isAskedFor = true;
        this.makeAskable(wanted);
      } else if (lowest === record && heir?.requests?.askable.delete(wanted) === true)
        requestsOf(record).askable.add(wanted);
    }
    this.#refresh(record);
  }

  /** The height no longer requests an id; the next one that lacks it takes over. */
  withdraw(record: HeightRecord, wanted: WantedCollection): void {
    if (record.requests?.askable.delete(wanted) === true) this.makeAskable(wanted);
  }

  /** Holds the height back until a next look. `mostMs`: all holds of a height together. False when that is over. */
  hold(record: HeightRecord, mostMs: number, lookMs: number): boolean {
    const nowMs = this.#parts.clock.monotonic();
    const requests = requestsOf(record);
    const endsAtMs = (requests.holdEndsAtMs ??= nowMs + mostMs);
    if (endsAtMs <= nowMs) return false;
    requests.held = true;
    this.#wait(record, Math.min(endsAtMs - nowMs, lookMs));
    return true;
  }

  /** The id may be requested (again); no call for it is under way. */
  makeAskable(wanted: WantedCollection): void {
    const [record] = wanted.heights;
    if (record === undefined) return;
    requestsOf(record).askable.add(wanted);
    this.#refresh(record);
  }

  /** The id may not be requested for so long. */
  pause(wanted: WantedCollection, delayMs: number): void {
    wanted.heights[0]?.requests?.askable.delete(wanted);
    this.#wait(wanted, delayMs);
  }

  /** What is waited for is not wanted any more. */
  waitNoMore(key: WantedCollection | HeightRecord): void {
    this.#waits.get(key)?.timer.cancel();
    this.#waits.delete(key);
  }

  /**
   * `onDue` is called after so long, whatever waits; Infinity: not any more. Whole milliseconds: a delay below the clock's
   * resolution would be due at once, again and again.
   */
  lookAgainIn(delayMs: number): void {
    const { clock, onDue } = this.#parts;
    this.#look?.cancel();
    this.#look = delayMs === Infinity ? undefined : clock.setTimer(Math.ceil(delayMs), onDue);
  }

  stop(): void {
    for (const key of this.#waits.keys()) this.waitNoMore(key);
    this.lookAgainIn(Infinity);
  }

  #wait(key: WantedCollection | HeightRecord, delayMs: number): void {
    const { clock, onDue } = this.#parts;
    this.waitNoMore(key);
    const timer = clock.setTimer(Math.max(0, Math.ceil(delayMs)), () => {
      this.#waits.delete(key);
      if (!(key instanceof HeightRecord)) this.makeAskable(key);
      else {
        requestsOf(key).held = false;
        this.#refresh(key);
      }
      onDue();
    });
    this.#waits.set(key, { timer, atMs: clock.monotonic() + delayMs });
  }

  sent(wanted: WantedCollection, call: Call): void {
    if (wanted.call !== undefined) throw new Error('a collection was requested twice at once');
    wanted.call = call;
    const requests = requestsOf(call.sentFor);
    requests.workers += 1;
    requests.askable.delete(wanted);
  }

  returned(wanted: WantedCollection): void {
    const { call } = wanted;
    if (call === undefined) throw new Error('a call returned twice');
    wanted.call = undefined;
    requestsOf(call.sentFor).workers -= 1;
    this.#refresh(call.sentFor);
  }

  /** The attempt failed, and the id pauses. `isUntried`: some node was not asked in every way. */
  failed(wanted: WantedCollection, node: AccessNode, failure: Fault, isUntried: boolean): void {
    wanted.failedAtMs = this.#parts.clock.monotonic();
    this.#wait(wanted, this.#pauseMs(wanted, node, failure, isUntried));
    if (failure.kind !== 'denied' && failure.kind !== 'rate_limited') this.#failing.add(node.name);
    if (isAwaited(wanted)) this.#awaitsFetched = true;
  }

  /** The node delivered. It may now have the collection's siblings too, and its earlier failures may be over. */
  gave(given: WantedCollection, { name }: AccessNode): void {
    const nowMs = this.#parts.clock.monotonic();
    const isDue = this.#waits.size <= MANY.pausing || nowMs - this.#lookedAtMs >= MANY.everyMs;
    if (isDue) this.#lookedAtMs = nowMs;
    for (const record of given.heights)
      if (this.#waits.size > 0 && (isDue || record.missingCount <= MANY.pausing))
        this.#wake(this.#pausingAt(record));
    // What the node could not fetch for long, it now can.
    if (isDue && isAwaited(given) && given.earlyAttempts >= EARLY_PAUSE.times)
      this.#wakeAwaited([...this.#parts.mcq.allWanted()].filter(({ lastNode }) => lastNode === name));
    if (!this.#failing.delete(name)) return;
    this.#wake(
      this.#parts.mcq.allWanted(),
      ({ lastNode, failures }) => lastNode === name && failures?.get(name)?.isDenial === false,
    );
  }

  /** At least the collections of the height that pause: it may lack thousands, of which few pause. */
  #pausingAt(record: HeightRecord): readonly WantedCollection[] {
    if (this.#waits.size >= record.missingCount) return this.wantedAt(record.height);
    const pausing = [...this.#waits.keys()];
    return pausing.flatMap((key) => (key instanceof HeightRecord || !key.isWantedBy(record) ? [] : key));
  }

  /**
   * A moving head is a sign of life: what holds up the watermark is requested again. Of what was denied, that is what the
   * node is expected to fetch, a few at a time: once one is there, it ends the pauses of the others.
   */
  sawHead(headHeight: number): void {
    if (headHeight <= this.#headHeight) return;
    this.#headHeight = headHeight;
    const lowest = this.#parts.mcq.lowest();
    if (lowest === undefined) return;
    this.#wake(this.wantedAt(lowest), ({ lastNode = '', failures }) => {
      return failures?.get(lastNode)?.isDenial === false;
    });
    this.#awaitsFetched = this.#wakeAwaited([...this.wantedAt(lowest)]);
  }

  /**
   * Ends the pauses of collections that their node is expected to fetch, lowest height first, and of those that have just
   * been denied as soon as it may: there may be no further sign. False if none pauses.
   */
  #wakeAwaited(several: readonly WantedCollection[]): boolean {
    const heightOf = ({ heights: [record] }: WantedCollection): number => record?.height ?? 0;
    const awaited = several
      .filter((wanted) => this.#waits.has(wanted) && isAwaited(wanted))
      .sort((a, b) => heightOf(a) - heightOf(b) || a.failedAtMs - b.failedAtMs)
      .slice(0, MAX_AWAITED_WOKEN);
    this.#wake(awaited);
    for (const wanted of awaited) {
      const atMs = wanted.failedAtMs + WAKE_AFTER_MS;
      if ((this.#waits.get(wanted)?.atMs ?? -Infinity) > atMs)
        this.#wait(wanted, atMs - this.#parts.clock.monotonic());
    }
    return awaited.length > 0;
  }

  /**
   * "Not yet" for a new block is not a failure: it is requested again soon, a few times. Nor is "not found": many nodes cannot
   * tell a collection that they have not fetched yet from one that never existed.
   */
  #pauseMs(wanted: WantedCollection, node: AccessNode, failure: Fault, isUntried: boolean): number {
    const { backoffMinMs: minMs, backoffMaxMs } = this.#parts;
    const isEarly = failure.kind === 'denied' && wanted.newSinceMs !== undefined;
    if (isEarly && wanted.earlyAttempts < EARLY_PAUSE.times) {
      wanted.tries.declined(node);
      const pauseMs = EARLY_PAUSE.minMs * EARLY_PAUSE.growth ** wanted.earlyAttempts;
      wanted.earlyAttempts += 1;
      return Math.min(pauseMs, EARLY_PAUSE.maxMs, minMs);
    }
    // The node's own delay applies: the collection does not back off in addition.
    if (failure.kind === 'rate_limited') wanted.tries.declined(node);
    else wanted.tries.failed(node);
    const untriedMaxMs = Math.min(backoffMaxMs, Math.max(minMs, UNTRIED_MAX_MS));
    // A busy node does not count as a failure: the first pause is the shortest either way.
    return wanted.tries.pauseMs(
      { minMs, maxMs: isUntried ? untriedMaxMs : backoffMaxMs },
      this.#parts.random,
    );
  }

  /** Ends the pauses of these ids, except those that have just started. */
  #wake(
    several: Iterable<WantedCollection>,
    condition: (wanted: WantedCollection) => boolean = () => true,
  ): void {
    if (this.#waits.size === 0) return;
    const failedByMs = this.#parts.clock.monotonic() - WAKE_AFTER_MS;
    for (const wanted of several) {
      if (wanted.attempts === 0 || wanted.failedAtMs > failedByMs) continue;
      if (!this.#waits.has(wanted) || !condition(wanted)) continue;
      this.waitNoMore(wanted);
      this.makeAskable(wanted);
    }
  }

  #refresh(record: HeightRecord): void {
    if (!this.#mayAsk(record)) return;
    const { height } = record;
    this.#lowest = this.#highest < 0 ? height : Math.min(this.#lowest, height);
    this.#highest = Math.max(this.#highest, height);
  }

  #mayAsk({ requests }: HeightRecord): boolean {
    if (requests === undefined || requests.held) return false;
    return requests.workers < this.#parts.workersPerHeight && requests.askable.size > 0;
  }
}

function requestsOf(record: HeightRecord): HeightRequests {
  return (record.requests ??= { askable: new Set(), workers: 0, held: false, holdEndsAtMs: undefined });
}

/** The node that was asked last is expected to fetch it: it says so, or the block was new when it was asked first. */
function isAwaited({ attempts, failures, lastNode = '', newSinceMs }: WantedCollection): boolean {
  const last = failures?.get(lastNode);
  return attempts > 0 && last?.isDenial === true && (last.isPromised || newSinceMs !== undefined);
}
