/** From the start of a worker until its target is ready for the first input: loading the sources, opening servers. */
export const START_LIMIT_MS = 180_000;
/** From the last input until the target is closed. */
export const END_LIMIT_MS = 60_000;
/** A worker that is at the same input for so many times as long as an input may take will never come back. */
export const STUCK_FACTOR = 10;

const PHASE = 0;
const INDEX = 1;

const STARTING = 0;
const FEEDING = 1;
const ENDING = 2;

/** What a worker is at, in shared memory: it can be read even when the worker hangs. */
export class WorkerState {
  readonly cells: Int32Array;

  /** Without cells of another state: a worker that has not started. */
  constructor(cells: Int32Array = new Int32Array(new SharedArrayBuffer(8))) {
    this.cells = cells;
  }

  /** The worker is ready, and begins with this input. */
  feeding(index: number): void {
    Atomics.store(this.cells, INDEX, index);
    Atomics.store(this.cells, PHASE, FEEDING);
  }

  /** There are no more inputs. */
  ending(): void {
    Atomics.store(this.cells, PHASE, ENDING);
  }

  /** The input under way, or the last one; 0 before the first. */
  get index(): number {
    return Atomics.load(this.cells, INDEX);
  }

  get phase(): number {
    return Atomics.load(this.cells, PHASE);
  }
}

/** Says when a worker gets no further. Its start, each input and its end have bounds of their own. */
export class StuckWatch {
  readonly #hangMs: number;
  readonly #state: WorkerState;
  #seen: { readonly phase: number; readonly index: number; readonly sinceMs: number };

  constructor(options: { readonly hangMs: number; readonly nowMs: number }, state: WorkerState) {
    this.#hangMs = options.hangMs;
    this.#state = state;
    this.#seen = { phase: STARTING, index: 0, sinceMs: options.nowMs };
  }

  /** What is wrong, if anything is; to be asked again and again. */
  problem(nowMs: number): string | undefined {
    const { index, phase } = this.#state;
    const { sinceMs } = this.#seen;
    if (phase !== this.#seen.phase || index !== this.#seen.index) {
      this.#seen = { phase, index, sinceMs: nowMs };
      return undefined;
    }
    const tookMs = nowMs - sinceMs;
    if (phase === STARTING) return tookMs > START_LIMIT_MS ? 'the target was never ready' : undefined;
    if (phase === ENDING) return tookMs > END_LIMIT_MS ? 'the target never closed' : undefined;
    return tookMs > this.#hangMs * STUCK_FACTOR ? 'it never ends' : undefined;
  }
}
