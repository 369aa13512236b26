/** A value that does not fit its setting. The message says what is allowed; the caller adds where it came from. */
export class FormatError extends Error {
  override readonly name = 'FormatError';
}
