import { ApiError } from '../view/ApiError.js';

/** Answers below this are not counted: what the number of calls under way allows of them is little. */
const SMALL_MESSAGE_BYTES = 64 * 1024;
/** All larger answers together that lie here until their callers take them. */
const MAX_HELD_BYTES = 256 * 1024 * 1024;

/** Bounds the answers that wait to be taken: a connection carries many calls, and grants no credit unless it wants to. */
export class MessageBuffer {
  readonly #maxHeldBytes: number;
  #heldBytes = 0;

  constructor(options: { readonly maxHeldBytes?: number }) {
    this.#maxHeldBytes = options.maxHeldBytes ?? MAX_HELD_BYTES;
  }

  /**
   * For every answer, before it is sent. Returns what is to be called once it was taken, or is not wanted any more. The
   * first large one is let through whatever its size. Expected errors: ApiError (busy) when too much is held already.
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
