import { Listeners, type Clock, type Timer } from '../../runtime/index.js';

/** With `blockIntervalMs` 0 the chain stays this far ahead of the highest block read. */
const FREE_RUN_LEAD_HEIGHTS = 8;
const FINALIZATIONS_KEPT_MAX = 65_536;
/** A process may stand still for hours, and each block that it makes up for takes 10 ms. */
const LATE_BLOCKS_MAX = 250;

export interface ChainHeadOptions {
  readonly rootHeight: number;
  /** The finalized head at the start. */
  readonly startHead: number;
  /** The head stops here. */
  readonly endHeight: number;
  /** The sealed head stops here: the next spork discarded the heights above. */
  readonly endSealedHeight: number;
  /** 0 = as fast as they are read. */
  readonly blockIntervalMs: number;
  readonly sealedLag: number;
  /** Blocks that execution data lags behind the sealed head; negative: ahead, at most to the finalized head. */
  readonly executionDataLag: number;
  /** How far back `isOlderThan` must remember. */
  readonly memoryMs: number;
}

interface Finalization {
  readonly height: number;
  readonly atMs: number;
}

/** The moving end of the chain: finalized head, sealed head, and execution data. */
export class ChainHead {
  readonly #options: ChainHeadOptions;
  readonly #clock: Clock;
  readonly #listeners = new Listeners();
  /** When the latest heights were finalized, within `memoryMs` and a limit. */
  #finalizations: Finalization[] = [];
  #finalized: number;
  #executionDataLag: number;
  #timer: Timer | undefined;

  constructor(options: ChainHeadOptions, dependencies: { readonly clock: Clock }) {
    this.#options = options;
    this.#clock = dependencies.clock;
    this.#finalized = options.startHead;
    this.#executionDataLag = options.executionDataLag;
  }

  get finalized(): number {
    return this.#finalized;
  }

  get sealed(): number {
    const { rootHeight, endHeight, endSealedHeight, sealedLag } = this.#options;
    // At a spork's end, everything the next spork builds on is sealed.
    if (this.#finalized === endHeight) return endSealedHeight;
    return Math.min(endSealedHeight, Math.max(rootHeight, this.#finalized - sealedLag));
  }

  /** The highest height with execution data. Below the root: none. */
  get executed(): number {
    return Math.min(this.#finalized, this.sealed - this.#executionDataLag);
  }

  get executionDataLag(): number {
    return this.#executionDataLag;
  }

  set executionDataLag(heights: number) {
    this.#executionDataLag = heights;
    this.touch();
  }

  get isPaused(): boolean {
    return this.#timer === undefined;
  }

  /** Calls `listener` after each change until the returned function is called. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Finalizes `count` more blocks at once. */
  advance(count = 1): void {
    this.set(this.#finalized + count);
  }

  /** Moves the head up or down, within root and end. */
  set(height: number): void {
    const target = Math.min(this.#options.endHeight, Math.max(this.#options.rootHeight, height));
    if (target === this.#finalized) return;
    if (target < this.#finalized) this.#finalizations = [];
    this.#finalized = target;
    this.#remember();
    this.touch();
  }

  /** Produces blocks over time or, with interval 0, as they are read. */
  resume(): void {
    if (this.#timer !== undefined) return;
    const interval = this.#options.blockIntervalMs;
    if (interval === 0) {
      this.#timer = { cancel: () => undefined };
      return;
    }
    let due = this.#clock.monotonic() + interval;
    const tick = (): void => {
      const now = this.#clock.monotonic();
      // Late timers catch up, so that the pace holds on a busy machine.
      const blocks = Math.max(1, Math.floor((now - due) / interval) + 1);
      due += blocks * interval;
      this.#timer = this.#clock.setTimer(Math.max(0, due - now), tick);
      this.advance(Math.min(blocks, LATE_BLOCKS_MAX));
    };
    this.#timer = this.#clock.setTimer(interval, tick);
  }

  pause(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Notes that a caller has read this block; with interval 0 the head moves on. */
  wasRead(height: number): void {
    if (this.#options.blockIntervalMs > 0 || this.isPaused) return;
    const behind = this.#options.sealedLag + Math.max(0, this.#executionDataLag);
    this.set(Math.max(this.#finalized, height + behind + FREE_RUN_LEAD_HEIGHTS));
  }

  /** True if the height was finalized at least `ageMs` ago. */
  isOlderThan(height: number, ageMs: number): boolean {
    if (height > this.#finalized) return false;
    if (ageMs === 0) return true;
    const since = this.#clock.monotonic() - ageMs;
    // The first entry at or above the height has the time. Without one, or below the oldest one, it was long ago.
    const first = this.#finalizations.find((entry) => entry.height >= height);
    if (first === undefined || first === this.#finalizations[0]) {
      const [oldest] = this.#finalizations;
      return oldest === undefined || height < oldest.height || oldest.atMs <= since;
    }
    return first.atMs <= since;
  }

  /** Calls all listeners. */
  touch(): void {
    this.#listeners.tell();
  }

  #remember(): void {
    const { memoryMs } = this.#options;
    if (memoryMs === 0) return;
    const now = this.#clock.monotonic();
    this.#finalizations.push({ height: this.#finalized, atMs: now });
    const keep = this.#finalizations.findIndex((entry) => entry.atMs > now - memoryMs);
    const excess = Math.max(keep, this.#finalizations.length - FINALIZATIONS_KEPT_MAX);
    if (excess > 0) this.#finalizations.splice(0, excess);
  }
}
