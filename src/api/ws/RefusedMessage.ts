import type { Action } from './messages.js';

/** A refusal in the protocol's form: the connection continues. */
export class RefusedMessage extends Error {
  override readonly name = 'RefusedMessage';
  /** An HTTP status. */
  readonly code: number;
  readonly action: Action | undefined;
  readonly id: string | undefined;

  constructor(code: number, message: string, action?: Action, id?: string) {
    super(message);
    this.code = code;
    this.action = action;
    this.id = id;
  }
}
