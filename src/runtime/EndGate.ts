const OPEN = 0;
const WITHIN = 1;
const CLOSED = 2;

/**
 * Decides with another thread that may be ended at any instruction when it must not be: while it makes something in native code
 * that nobody would free again. Both threads have a gate over the same memory.
 */
export class EndGate {
  /** Handed to the other thread. */
  readonly memory: SharedArrayBuffer;
  readonly #state: Int32Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#state = new Int32Array(memory);
  }

  /** In the thread: does what must not be cut in two. Throws once the thread is to end. */
  within<T>(action: () => T): T {
    if (Atomics.compareExchange(this.#state, 0, OPEN, WITHIN) !== OPEN) {
      throw new Error('this thread is being ended');
    }
    try {
      return action();
    } finally {
      Atomics.store(this.#state, 0, OPEN);
    }
  }

  /** By whoever ends the thread. False: it is within just now; ask again. */
  close(): boolean {
    return Atomics.compareExchange(this.#state, 0, OPEN, CLOSED) !== WITHIN;
  }
}
