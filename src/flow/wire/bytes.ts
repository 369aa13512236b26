/** The same memory as a `Buffer`; no copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** `bytes[index]` where the caller has checked the index: the one place that asserts this to the compiler. */
export function byteAt(bytes: Uint8Array, index: number): number {
  return bytes[index] as number;
}
