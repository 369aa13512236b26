import { ApiError } from '../view/ApiError.js';

/** Smaller responses are not counted: the limit on calls under way bounds them well enough. */
const SMALL_MESSAGE_BYTES = 64 * 1024;
/** Total of larger responses held until their callers take them. */
const MAX_HELD_BYTES = 256 * 1024 * 1024;

/** Bounds the responses that wait to be taken: a connection carries many calls, and may grant no credit. */
export class MessageBuffer {
  readonly #maxHeldBytes: number;
  #heldBytes = 0;

  constructor(options: { readonly maxHeldBytes?: number }) {
    this.#maxHeldBytes = options.maxHeldBytes ?? MAX_HELD_BYTES;
  }

  /**
   * Call for every response before it is sent. Returns a function to call once it was taken, or is no longer wanted.
   * The first large one is let through whatever its size. Expected errors: ApiError (busy) when too much is held
   * already.
   */
  hold(bytes: number): () => void {
    if (bytes < SMALL_MESSAGE_BYTES) return () => undefined;
    if (this.#heldBytes > 0 && this.#heldBytes + bytes > this.#maxHeldBytes) {
      throw new ApiError(
        503,
        'busy',
        'too many large answers wait for their callers to take them; ask again',
      );
    }
    this.#heldBytes += bytes;
    return () => {
      this.#heldBytes -= bytes;
    };
  }
}
