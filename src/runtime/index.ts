export { Backoff, backoffMs, doublingMs } from './backoff.js';
export { AbortError, abortReason, isAbort, sleep, systemClock } from './clock.js';
export type { Clock, Timer } from './clock.js';
export { maskedEndpoint, withoutCredentials } from './credentials.js';
export { messageOf, OperatorError } from './errors.js';
export type { ExitReason } from './errors.js';
export { named, quoted, shortened } from './text.js';
export { seededRandom, systemRandom } from './random.js';
export type { Random } from './random.js';
