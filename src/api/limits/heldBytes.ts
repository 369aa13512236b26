import { busy } from '../view/ApiError.js';

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

/**
 * Call it for every response before it is sent; `undefined` for a small one. The first large one is allowed at any size.
 * Expected errors: ApiError (busy) when too much is held already.
 */
export type HoldBytes = (bytes: number) => Held | undefined;

/** Bounds the memory that callers make a server hold: one connection can request a lot and read none of it. */
export function heldBytes(maxHeldBytes = MAX_HELD_BYTES): HoldBytes {
  let all = 0;
  return (bytes) => {
    if (bytes < SMALL_RESPONSE_BYTES) return undefined;
    if (all > 0 && all + bytes > maxHeldBytes)
      throw busy('too many large responses wait for their callers to take them; retry');
    let held = 0;
    let isReleased = false;
    const resize = (size: number): void => {
      if (isReleased) return;
      all += size - held;
      held = size;
    };
    const release = (): void => {
      resize(0);
      isReleased = true;
    };
    resize(bytes);
    return { resize, release };
  };
}
