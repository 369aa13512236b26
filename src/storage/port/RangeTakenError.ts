/** The range cannot be filled in now: part of it is covered already, or an open range overlaps it. */
export class RangeTakenError extends Error {
  override readonly name = 'RangeTakenError';
}
