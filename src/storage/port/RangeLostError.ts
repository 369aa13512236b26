import { StorageError } from '../StorageError.js';

/** The range is somebody else's by now, or nobody's: its plan was cancelled. This run of it has written nothing since. */
export class RangeLostError extends StorageError {
  constructor(place: string) {
    super('locked', `Another process fills in this range of the store at ${place} now.`);
  }
}
