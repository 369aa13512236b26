/** The range cannot be filled in at present: it is there already, in part, or another range that is filled in overlaps it. */
export class RangeTakenError extends Error {
  override readonly name = 'RangeTakenError';
}
