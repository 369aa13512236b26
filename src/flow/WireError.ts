/**
 * Bytes that are not a valid message: truncated, an impossible tag or length, a missing part, an id that is not 32 bytes, a
 * height that is not a safe integer, a count or size above its bound. The expected error of every decoder of this room.
 */
export class WireError extends Error {
  override readonly name = 'WireError';
}
