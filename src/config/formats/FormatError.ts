/**
 * A value that its setting does not allow. The message says what is allowed; the caller adds where the value came from.
 */
export class FormatError extends Error {
  override readonly name = 'FormatError';
}
