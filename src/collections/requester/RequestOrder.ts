import type { HeightRecord, HeightRequests } from '../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../heights/MissingCollectionQueue.js';
import type { Call, WantedCollection } from '../heights/WantedCollection.js';

/**
 * What may be requested next, lowest height first: marks on the height records, and where to start looking. Independent
 * of nodes and time.
 */
export class RequestOrder {
  readonly #workersPerHeight: number;
  readonly #mcq: MissingCollectionQueue;
  /** No height below it may request now, and none above `#highest`. */
  #lowest = 0;
  #highest = -1;

  /** `workersPerHeight`: calls under way at once for one height. */
  constructor(workersPerHeight: number, mcq: MissingCollectionQueue) {
    this.#workersPerHeight = workersPerHeight;
    this.#mcq = mcq;
  }

  /** The ids that a height lacks. */
  *wantedAt(height: number): Generator<WantedCollection> {
    for (const id of this.#mcq.missingIds(height)) {
      const wanted = this.#mcq.wanted(id);
      if (wanted !== undefined) yield wanted;
    }
  }

  /** About how many collections are wanted from the lowest height through this one. */
  countThrough(height: number): number {
    const { incompleteHeights, missingCollections } = this.#mcq;
    if (incompleteHeights === 0) return 0;
    const through = Math.min(incompleteHeights, height - (this.#mcq.lowest() ?? height) + 1);
    return (missingCollections / incompleteHeights) * through;
  }

  /** The lowest height that may request now. */
  next(): HeightRecord | undefined {
    for (; this.#lowest <= this.#highest; this.#lowest += 1) {
      const record = this.#mcq.get(this.#lowest);
      if (record !== undefined && this.#mayAsk(record)) return record;
    }
    return undefined;
  }

  /** The next id to request for this height, oldest first. */
  nextAt({ requests }: HeightRecord): WantedCollection | undefined {
    return requests?.askable.values().next().value;
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

  /** Holds the height back until `release`. Returns the latest end of the hold, which the first hold sets. */
  hold(record: HeightRecord, endsAtMs: number): number {
    const requests = requestsOf(record);
    requests.held = true;
    requests.holdEndsAtMs ??= endsAtMs;
    return requests.holdEndsAtMs;
  }

  release(record: HeightRecord): void {
    if (record.requests !== undefined) record.requests.held = false;
    this.#refresh(record);
  }

  /** The id may be requested (again); no call for it is under way. */
  makeAskable(wanted: WantedCollection): void {
    const [record] = wanted.heights;
    if (record === undefined) return;
    requestsOf(record).askable.add(wanted);
    this.#refresh(record);
  }

  /** The id may not be requested until `makeAskable`. */
  pause(wanted: WantedCollection): void {
    wanted.heights[0]?.requests?.askable.delete(wanted);
  }

  /** A call is sent. */
  sent(wanted: WantedCollection, call: Call): void {
    if (wanted.call !== undefined) throw new Error('a collection was requested twice at once');
    wanted.call = call;
    const requests = requestsOf(call.sentFor);
    requests.workers += 1;
    requests.askable.delete(wanted);
  }

  /** The call returned, whatever it brought. */
  returned(wanted: WantedCollection): void {
    const { call } = wanted;
    if (call === undefined) throw new Error('a call returned twice');
    wanted.call = undefined;
    requestsOf(call.sentFor).workers -= 1;
    this.#refresh(call.sentFor);
  }

  #refresh(record: HeightRecord): void {
    if (!this.#mayAsk(record)) return;
    const { height } = record;
    this.#lowest = this.#highest < 0 ? height : Math.min(this.#lowest, height);
    this.#highest = Math.max(this.#highest, height);
  }

  #mayAsk({ requests }: HeightRecord): boolean {
    return (
      requests !== undefined &&
      !requests.held &&
      requests.workers < this.#workersPerHeight &&
      requests.askable.size > 0
    );
  }
}

function requestsOf(record: HeightRecord): HeightRequests {
  return (record.requests ??= { askable: new Set(), workers: 0, held: false, holdEndsAtMs: undefined });
}
