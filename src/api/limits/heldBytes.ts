import { busy } from '../view/ApiError.js';

/** Smaller responses are not counted: other limits bound them well enough. */
const SMALL_RESPONSE_BYTES = 64 * 1024;
/** Total of larger responses held until their callers take them. */
const MAX_HELD_BYTES = 256 * 1024 * 1024;

/**
 * Call it before each response is sent, and the function that it returns once the response is taken or abandoned; `undefined` for
 * a small one. The first large one is allowed at any size. Expected errors: ApiError (busy) when too much is held already.
 */
export type HoldBytes = (bytes: number) => (() => void) | undefined;

/** Bounds the memory that callers make a server hold: one connection can request a lot and read none of it. */
export function heldBytes(maxHeldBytes = MAX_HELD_BYTES): HoldBytes {
  let all = 0;
  return (bytes) => {
    if (bytes < SMALL_RESPONSE_BYTES) return undefined;
    if (all > 0 && all + bytes > maxHeldBytes)
      throw busy('too many large responses wait for their callers to take them; retry');
    all += bytes;
    let held = bytes;
    return () => {
      all -= held;
      held = 0;
    };
  };
}
