import { OperatorError } from '../../../runtime/index.js';

/** No node says where the history begins that is to be planned; one may say it later. */
export class NotKnownYet extends OperatorError {}
