import { WireError } from '../../flow/index.js';

/** A later version of the program made the proof. */
export class UnknownProofError extends WireError {}
