/** Expected: a source that is followed cannot give what is asked of it now. The message says why, and what to do. */
export class SourceTroubleError extends Error {
  override readonly name = 'SourceTroubleError';
}
