import { OperatorError } from '../../../runtime/index.js';

/** No node reports where the history to plan begins; one may do so later. */
export class NotKnownYet extends OperatorError {}
