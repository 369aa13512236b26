import { StorageError } from '../StorageError.js';
import type { BlockHead } from './stored.js';

/**
 * A complete range does not link to the covered block next to it: one of the two is not on the chain. Nothing was
 * written.
 */
export class BorderError extends Error {
  override readonly name = 'BorderError';
  /** The upper of the two blocks. */
  readonly height: number;
  /** The parent that the upper block names, and the block that is stored below it. */
  readonly parentId: string;
  readonly lowerId: string;

  constructor(upper: Pick<BlockHead, 'height' | 'parentId'>, lower: Pick<BlockHead, 'id'>) {
    super(
      `block ${upper.height} names the parent ${upper.parentId}, but the block below it is ${lower.id}: ` +
        'the range does not link to its neighbour',
    );
    this.height = upper.height;
    this.parentId = upper.parentId;
    this.lowerId = lower.id;
  }
}

/** Another process fills in the range now, or its plan was cancelled. This run has written nothing since. */
export class RangeLostError extends StorageError {
  constructor(place: string) {
    super('locked', `Another process fills in this range of the store at ${place} now.`);
  }
}

/** The range cannot be filled in now: part of it is covered already, or an open range overlaps it. */
export class RangeTakenError extends Error {
  override readonly name = 'RangeTakenError';
}
