import type { CallStatus } from '../upstreamErrors.js';

/**
 * A call that did not end with OK. Internal to this room: the caller that knows the method turns it into
 * `UpstreamError`.
 */
export class CallFailure extends Error {
  override readonly name = 'CallFailure';
  readonly status: CallStatus;

  constructor(callStatus: CallStatus) {
    super(callStatus.details);
    this.status = callStatus;
  }
}
