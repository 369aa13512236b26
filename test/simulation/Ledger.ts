import { getEventListeners } from 'node:events';
import type { IndexingLine } from '../../src/app/line/buildLine.js';
import type { openUpstream } from '../../src/app/line/runIndexing.js';

type Parts = ReturnType<typeof openUpstream>;

/** The loops of a process, one wait of each, and what closes. What a line, a range or a call leaves behind adds up. */
const MAX_LISTENING_FOR_THE_END = 26;

/** Remembers every signal that anybody listens to, so that those who stay can be counted. */
export class SignalRegister {
  readonly #signals = new Set<AbortSignal>();
  readonly #restore: () => void;

  /** In force until `close`: signals are made in many places, and handed on. */
  constructor() {
    const { prototype } = AbortSignal;
    const signals = this.#signals;
    type Given = Parameters<EventTarget['addEventListener']>;
    prototype.addEventListener = function (this: AbortSignal, ...given: Given) {
      signals.add(this);
      EventTarget.prototype.addEventListener.apply(this, given);
    };
    this.#restore = () => Reflect.deleteProperty(prototype, 'addEventListener');
  }

  /** Listeners on signals that have not aborted: an abort takes them away. */
  get listeners(): number {
    return [...this.#signals]
      .filter(({ aborted }) => !aborted)
      .reduce((sum, signal) => sum + getEventListeners(signal, 'abort').length, 0);
  }

  /** What a process that was killed has left behind is gone with it. */
  forget(): void {
    this.#signals.clear();
  }

  close(): void {
    this.#restore();
  }
}

const WATERMARK = 'subscribers of the watermark';

/** What the lines of a process borrow from the parts that outlive them must be back whenever nobody needs it. */
export class Ledger {
  readonly #parts: Parts;
  readonly #fail: (what: string) => void;
  readonly #subscribers = new Map<string, number>();
  #atStart = new Map<string, number>();
  #withLine: ReadonlyMap<string, number> | undefined;
  #live: IndexingLine | undefined;
  /** Lines of history, and whether each has written all that it was to write. */
  #ranges = new Map<IndexingLine, () => boolean>();

  constructor(dependencies: { readonly parts: Parts; readonly fail: (what: string) => void }) {
    const { parts } = dependencies;
    this.#parts = parts;
    this.#fail = dependencies.fail;
    const { listener, network, pace, slots, window } = parts;
    this.#count(WATERMARK, window, 'onMoved');
    this.#count('listeners of rising heads', listener.finalized, 'onRise');
    this.#count('listeners of nodes that report again', listener, 'onAnswerAgain');
    this.#count('listeners of nodes that answer', network, 'onAnswering');
    this.#count('listeners of the pace of history', pace, 'onMore');
    this.#count('requesters that wait for slots', slots, 'onFreed');
  }

  /** The process has subscribed what it keeps until it ends; no line has begun. */
  opened(): void {
    this.#atStart = new Map(this.#subscribers);
  }

  lineStarts(line: IndexingLine): void {
    if (this.#live !== undefined) this.#isOver('the line before', this.#live, false);
    this.#live = line;
    if (this.#parts.backfill.running().length === 0) this.#nothing('slots in use', this.#parts.slots.inUse);
  }

  afterStep(): void {
    const { backfill, lifecycle } = this.#parts;
    const listening = getEventListeners(lifecycle.signal, 'abort').length;
    if (listening > MAX_LISTENING_FOR_THE_END)
      this.#fail(`${listening} listen for the end of the process at once`);
    const running = new Map(
      backfill.running().map(({ job: { range, store }, line }) => {
        return [line.indexing, () => store.latestIndexedHeight() === range.to];
      }),
    );
    for (const [line, isWritten] of this.#ranges)
      if (!running.has(line)) this.#isOver('a range', line, isWritten());
    this.#ranges = running;
    if (running.size > 0 || this.#live === undefined) return;
    this.#withLine ??= new Map(this.#subscribers);
    for (const [name, count] of this.#subscribers) {
      const before = this.#withLine.get(name) ?? 0;
      // Who proves what is final may begin later than the first line.
      const late = name === WATERMARK && this.#parts.prover !== undefined ? 1 : 0;
      if (count > before + late) this.#fail(`${count} ${name} with one line, ${before} with the first`);
    }
  }

  /** The process has closed everything; `isComplete`: and nothing is left to write. */
  ended(isComplete: boolean): void {
    const { network, slots } = this.#parts;
    if (this.#live !== undefined) this.#isOver('the line', this.#live, isComplete);
    for (const [line, isWritten] of this.#ranges) this.#isOver('a range', line, isWritten());
    for (const [name, count] of this.#subscribers) {
      const before = this.#atStart.get(name) ?? 0;
      if (count !== before) this.#fail(`at rest: ${count} ${name}, ${before} at the start`);
    }
    this.#nothing('slots in use', slots.inUse);
    for (const { inFlight, limits, name } of network.states()) {
      this.#nothing(`calls of ${name} under way`, inFlight);
      for (const { method, waiting } of limits)
        this.#nothing(`callers waiting at the limiter of ${method} at ${name}`, waiting);
    }
  }

  #isOver(what: string, { requester, window }: IndexingLine, isWritten: boolean): void {
    this.#nothing(`calls of ${what}`, requester?.inFlight() ?? 0);
    // What a line did not finish goes with it.
    if (!isWritten) return;
    this.#nothing(`heights of ${what} in hand`, window.inHand);
    this.#nothing(`bytes of ${what} in flight`, window.bytesInHand);
  }

  #nothing(name: string, count: number): void {
    if (count !== 0) this.#fail(`at rest: ${count} ${name}`);
  }

  #count<K extends string>(name: string, part: Record<K, (...given: never[]) => () => void>, method: K) {
    const subscribe = part[method].bind(part);
    const add = (by: number): void =>
      void this.#subscribers.set(name, (this.#subscribers.get(name) ?? 0) + by);
    add(0);
    part[method] = (...given) => {
      const leave = subscribe(...given);
      let isIn = true;
      add(1);
      return () => {
        if (isIn) add(-1);
        isIn = false;
        leave();
      };
    };
  }
}
