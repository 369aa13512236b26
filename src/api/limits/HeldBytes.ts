import { ApiError } from '../view/ApiError.js';

/** Smaller responses are not counted: other limits bound them well enough. */
const SMALL_RESPONSE_BYTES = 64 * 1024;
/** Total of larger responses held until their callers take them. */
const MAX_HELD_BYTES = 256 * 1024 * 1024;

/** One response that waits for its caller. */
export interface Held {
  /** Its size differs from what was announced. */
  readonly resize: (bytes: number) => void;
  /** It was taken, or is no longer wanted. Idempotent. */
  readonly release: () => void;
}

/** Bounds the memory that callers make a server hold: one connection can request a lot and read none of it. */
export class HeldBytes {
  readonly #maxHeldBytes: number;
  #heldBytes = 0;

  constructor(options: { readonly maxHeldBytes?: number }) {
    this.#maxHeldBytes = options.maxHeldBytes ?? MAX_HELD_BYTES;
  }

  /**
   * Call for every response before it is sent; `undefined` for a small one. The first large one is allowed at any
   * size. Expected errors: ApiError (busy) when too much is held already.
   */
  hold(bytes: number): Held | undefined {
    if (bytes < SMALL_RESPONSE_BYTES) return undefined;
    if (this.#heldBytes > 0 && this.#heldBytes + bytes > this.#maxHeldBytes) {
      throw new ApiError(503, 'busy', 'too many large responses wait for their callers to take them; retry');
    }
    let held = 0;
    let isReleased = false;
    const resize = (size: number): void => {
      if (isReleased) return;
      this.#heldBytes += size - held;
      held = size;
    };
    resize(bytes);
    return {
      resize,
      release: () => {
        resize(0);
        isReleased = true;
      },
    };
  }
}
