import type { StatusName } from './faultRules.js';

/** A gRPC status other than OK: the node's answer to a call, and its methods' only expected error. */
export class StatusError extends Error {
  override readonly name = 'StatusError';
  readonly status: StatusName;
  readonly details: string;

  constructor(status: StatusName, details: string) {
    super(`${status}: ${details}`);
    this.status = status;
    this.details = details;
  }
}

export const KEY_NOT_FOUND = 'could not retrieve resource: key not found';

export function notFound(details: string): StatusError {
  return new StatusError('NOT_FOUND', `not found: ${details}`);
}
