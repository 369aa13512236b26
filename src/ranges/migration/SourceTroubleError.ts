/** Expected: a followed source cannot answer now. The message says why, and what to do. */
export class SourceTroubleError extends Error {
  override readonly name = 'SourceTroubleError';
}
