import { StorageError } from '../StorageError.js';

/** Another process fills in the range now, or its plan was cancelled. This run has written nothing since. */
export class RangeLostError extends StorageError {
  constructor(place: string) {
    super('locked', `Another process fills in this range of the store at ${place} now.`);
  }
}
