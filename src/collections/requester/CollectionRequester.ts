import type { AccessNodes } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import { HeightRecord } from '../heights/HeightRecord.js';
import type { MissingCollectionQueue } from '../heights/MissingCollectionQueue.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { trailOf } from './callOutcome.js';
import { CollectionCalls } from './CollectionCalls.js';
import { CollectionNodes } from './CollectionNodes.js';
import { EndpointSlots } from './EndpointSlots.js';
import type { SlotUse } from './EndpointSlots.js';
import type {
  CollectionRequests,
  CollectionSink,
  ExecutionDataForecast,
  HeldBackNode,
  RequestTrail,
} from '../ports.js';
import { RequestOrder } from './RequestOrder.js';
import { RetryPauses } from './RetryPauses.js';
import { TimerQueue } from './TimerQueue.js';
import type { WantedCollection } from '../heights/WantedCollection.js';
import type { BlockWindow } from '../heights/Window.js';

export interface CollectionRequesterOptions {
  /** Calls under way at once, per access node (`requester.concurrency`). */
  readonly concurrency: number;
  /** Collection calls under way at once for one height. */
  readonly workersPerHeight: number;
  /** Deadline of a call; a silent node is given up sooner while there is another way or node to ask. */
  readonly timeoutMs: number;
  /** Pause before an id is requested again: doubles from here … */
  readonly backoffMinMs: number;
  /** … up to here. */
  readonly backoffMaxMs: number;
  /** True: for a range of history. Default: for the live range. */
  readonly isHistory?: boolean;
  /**
   * How long a height's requests wait at most for an execution-data stream that is expected to deliver it; 0 = never.
   */
  readonly holdBackMs: number;
}

export interface CollectionRequesterDependencies {
  /** Where the heights and their collections are looked up. */
  readonly mcq: MissingCollectionQueue;
  readonly nodes: Pick<AccessNodes, 'forHeight' | 'succeeded' | 'report'>;
  /** Takes the collection into `mcq`. */
  readonly sink: Pick<CollectionSink, 'onCollection'>;
  readonly window: Pick<BlockWindow, 'admits' | 'changed' | 'headHeight'>;
  /** Absent when execution data is not followed. */
  readonly forecast?: ExecutionDataForecast | undefined;
  /** Shared by the requesters of all ranges: history uses the slots that the live range leaves. Default: its own. */
  readonly slots?: EndpointSlots | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<
    Metrics,
    | 'collectionsRequested'
    | 'requestsCancelled'
    | 'requestsHeldBack'
    | 'requestToReceive'
    | 'invalidCollections'
  >;
  /** Called with unexpected errors, from a call or from the sink; the owner stops the process. */
  onFatal(error: unknown): void;
}

/** A good value for `holdBackMs`. The silence of a stream costs less: it is then no longer expected to deliver. */
export const DEFAULT_HOLD_BACK_MS = 2_000;
/**
 * While the fetch time is unknown, heights that the stream is expected to deliver within this time are held back; later
 * ones are requested, which measures the fetch time.
 */
const UNTRIED_FETCH_MS = 500;
/** How often to check whether a held-back height is still expected. */
const HELD_BACK_CHECK_MS = 250;
/** Within this distance of the head a block is new: its nodes may not have its collections yet. */
const NEW_HEIGHTS = 3;

/**
 * Requests collections by id from access nodes, lowest height first (onflow/flow-go#8117: a random order starves the
 * one height that moves the watermark). Each id is requested as soon as a slot is free, never twice at once, until it
 * arrives. Attempts are unlimited; what is no longer wanted is cancelled at once.
 *
 * Bounds: calls by `concurrency` per node and `workersPerHeight` per height; remembered ids by the window; one timer;
 * one wait for the window.
 */
export class CollectionRequester implements CollectionRequests {
  readonly #options: CollectionRequesterOptions;
  readonly #dependencies: CollectionRequesterDependencies;
  readonly #mcq: MissingCollectionQueue;
  readonly #order: RequestOrder;
  readonly #nodes: CollectionNodes;
  readonly #pauses: RetryPauses;
  /** Ids that pause before their next attempt and heights that are held back, by the end of the wait. */
  readonly #due: TimerQueue<WantedCollection | HeightRecord>;
  readonly #calls: CollectionCalls;
  readonly #leaveSlots: () => void;
  readonly #stopping = new AbortController();
  #watchingWindow = false;
  #pumping = false;

  constructor(options: CollectionRequesterOptions, dependencies: CollectionRequesterDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#mcq = dependencies.mcq;
    this.#order = new RequestOrder(options.workersPerHeight, dependencies.mcq);
    const slots = dependencies.slots ?? new EndpointSlots({ concurrency: options.concurrency });
    this.#nodes = new CollectionNodes(options.timeoutMs, { ...dependencies, slots });
    this.#due = new TimerQueue(dependencies.clock, (keys) => this.#onDue(keys));
    this.#pauses = new RetryPauses(options, { ...dependencies, order: this.#order, due: this.#due });
    this.#calls = new CollectionCalls(options.concurrency, {
      ...dependencies,
      collectionNodes: this.#nodes,
      slots,
      order: this.#order,
      pauses: this.#pauses,
      onRoom: () => this.#pump(),
      onFailing: () => this.#watchWindow(),
      onFatal: (error) => dependencies.onFatal(error),
    });
    this.#leaveSlots = slots.onFreed(options.isHistory === true ? 'history' : 'live', () => this.#pump());
  }

  request(height: number): void {
    const record = this.#mcq.get(height);
    if (this.#stopping.signal.aborted || record === undefined) return;
    this.#order.add(record);
    this.#pauses.sawHead(this.#dependencies.window.headHeight());
    if (height > this.#pauses.headHeight - NEW_HEIGHTS) this.#awaitArrival(height);
    this.#pump();
  }

  cancel(height: number, ids: readonly Identifier[]): void {
    const record = this.#mcq.get(height);
    if (record?.status !== 'collecting' && record !== undefined) this.#due.delete(record);
    for (const id of ids) {
      const wanted = this.#mcq.wanted(id);
      if (wanted === undefined || (record !== undefined && wanted.isWantedBy(record))) continue;
      if (record !== undefined) this.#order.withdraw(record, wanted);
      if (!wanted.isWanted) this.#leave(wanted);
    }
    this.#pump();
  }

  trail(id: Identifier): RequestTrail | undefined {
    const wanted = this.#mcq.wanted(id);
    return wanted?.isWanted === true ? trailOf(wanted) : undefined;
  }

  heldBack(height: number): readonly HeldBackNode[] {
    return this.#nodes.heldBack(height);
  }

  /** Collection calls under way. */
  inFlight(): number {
    return this.#calls.underWay;
  }

  /** Cancels every call and requests nothing more. Resolves when the calls have returned. Idempotent. */
  async stop(): Promise<void> {
    if (!this.#stopping.signal.aborted) this.#stopping.abort(new AbortError('stopping'));
    this.#due.clear();
    this.#leaveSlots();
    await this.#calls.stop();
  }

  #leave(wanted: WantedCollection): void {
    this.#due.delete(wanted);
    wanted.forget();
    this.#calls.cancel(wanted);
  }

  #onDue(keys: readonly (WantedCollection | HeightRecord)[]): void {
    for (const key of keys) {
      if (key instanceof HeightRecord) this.#order.release(key);
      else this.#order.makeAskable(key);
    }
    this.#pump();
  }

  /** Never throws: whoever gives it a reason to send is not to blame for a bug in here, and must not swallow it. */
  #pump(): void {
    if (this.#pumping || this.#stopping.signal.aborted) return;
    this.#pumping = true;
    try {
      this.#sendAll();
    } catch (error) {
      this.#dependencies.onFatal(error);
    } finally {
      this.#pumping = false;
    }
  }

  /** Sends all requests that may be sent now, lowest height first. If the lowest cannot send, no other overtakes it. */
  #sendAll(): void {
    this.#due.lookAgainIn(undefined);
    for (;;) {
      const record = this.#order.next();
      const wanted = record && this.#order.nextAt(record);
      if (record === undefined || wanted === undefined) {
        this.#calls.idles();
        break;
      }
      const { height } = record;
      const heldForMs = this.#holdBackMs(record);
      if (heldForMs !== undefined) {
        this.#due.set(record, heldForMs);
        continue;
      }
      if (!this.#isAdmitted(height)) {
        this.#calls.idles();
        this.#watchWindow();
        break;
      }
      const use = this.#useFor(height);
      const choice = this.#nodes.choose(height, wanted, use);
      if (choice.node === undefined) {
        this.#due.lookAgainIn(choice.retryInMs);
        break;
      }
      this.#calls.send(wanted, record, choice, use);
    }
  }

  /**
   * Holds a height back while the stream is expected to deliver it sooner than a request would, and never longer than
   * `holdBackMs` (docs/decisions/0003-hold-back.md). Decides when a call is about to be sent, not when it is queued: the
   * stream may have caught up meanwhile, or fallen silent. Returns after how long to check again; `undefined`: it may be
   * requested.
   */
  #holdBackMs(record: HeightRecord): number | undefined {
    const { clock, metrics, forecast } = this.#dependencies;
    const { holdBackMs } = this.#options;
    const { height } = record;
    if (holdBackMs <= 0 || forecast === undefined) return undefined;
    const fetchMs = this.#calls.durationMs(this.#order.countThrough(height)) ?? UNTRIED_FETCH_MS;
    if (!forecast.expects(height, Math.min(fetchMs, holdBackMs))) return undefined;
    const nowMs = clock.monotonic();
    const known = record.requests?.holdEndsAtMs;
    if (known !== undefined && known <= nowMs) return undefined;
    if (known === undefined) metrics.requestsHeldBack.inc();
    const endsAtMs = this.#order.hold(record, nowMs + holdBackMs);
    return Math.min(endsAtMs - nowMs, HELD_BACK_CHECK_MS);
  }

  #useFor(height: number): SlotUse {
    if (this.#options.isHistory === true) return 'history';
    return height === this.#mcq.lowest() ? 'lowest' : 'other';
  }

  /** Includes the bytes that the calls under way will bring: the window only counts what has arrived. */
  #isAdmitted(height: number): boolean {
    const bytes = this.#calls.collectionBytes * (this.#calls.underWay + 1);
    return this.#dependencies.window.admits(height, bytes);
  }

  #watchWindow(): void {
    if (this.#watchingWindow) return;
    this.#watchingWindow = true;
    this.#dependencies.window
      .changed(this.#stopping.signal)
      .then(() => {
        this.#watchingWindow = false;
        this.#pauses.sawHead(this.#dependencies.window.headHeight());
        if (this.#pauses.awaitsHead) this.#watchWindow();
        this.#pump();
      })
      .catch((error: unknown) => {
        if (!this.#stopping.signal.aborted) this.#dependencies.onFatal(error);
      });
  }

  /** Delays the requests for a new block's collections until the fastest node usually has them. */
  #awaitArrival(height: number): void {
    const nowMs = this.#dependencies.clock.monotonic();
    const delayMs = this.#nodes.untilFirstHasMs(height);
    for (const wanted of this.#order.wantedAt(height)) {
      if (wanted.attempts > 0 || wanted.newSinceMs !== undefined) continue;
      wanted.newSinceMs = nowMs;
      if (delayMs < 1 || wanted.call !== undefined) continue;
      this.#order.pause(wanted);
      this.#due.set(wanted, delayMs);
    }
  }
}
