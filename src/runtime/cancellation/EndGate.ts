/** LOADING comes first, because the memory of a new gate is zero. */
const [LOADING, OPEN, WITHIN, CLOSED] = [0, 1, 2, 3];

/**
 * Prevents one thread from terminating another at a harmful moment: while Node.js loads its modules, which would abort the
 * process, and while it creates native resources that would leak. Both threads have a gate over the same memory.
 */
export class EndGate {
  /** Handed to the other thread. */
  readonly memory: SharedArrayBuffer;
  readonly #state: Int32Array;

  /** Default: for a thread that is about to start. */
  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#state = new Int32Array(memory);
  }

  /** Called by the thread once its modules are loaded. */
  static loaded(memory: SharedArrayBuffer): EndGate {
    const gate = new EndGate(memory);
    Atomics.compareExchange(gate.#state, 0, LOADING, OPEN);
    return gate;
  }

  /** Called by the thread: runs an action that must not be interrupted. Throws once the gate is closed. */
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

  get isLoading(): boolean {
    return Atomics.load(this.#state, 0) === LOADING;
  }

  /** Called before terminating the thread. False: not now, try again. */
  close(): boolean {
    const before = Atomics.compareExchange(this.#state, 0, OPEN, CLOSED);
    return before === OPEN || before === CLOSED;
  }
}
