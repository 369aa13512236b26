import { NO_TIME } from '../../../flow/index.js';
import type { Timestamp } from '../../../flow/index.js';

/** A moment, split into microseconds, which is the precision of databases, and the remaining nanoseconds. */
export interface Time {
  /** Since the Unix epoch. */
  readonly microseconds: bigint;
  /** 0 to 999. */
  readonly nanoseconds: number;
}

const SECONDS_LENGTH = 'YYYY-MM-DDTHH:MM:SS'.length;
export function timeOf({ seconds, nanos }: Timestamp = NO_TIME): Time {
  return {
    microseconds: seconds * 1_000_000n + BigInt(Math.floor(nanos / 1_000)),
    nanoseconds: nanos % 1_000,
  };
}

/** RFC 3339 in UTC, always with six digits of a second. */
export function timeText(microseconds: bigint): string {
  const micros = ((microseconds % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const whole = new Date(Number((microseconds - micros) / 1_000n)).toISOString().slice(0, SECONDS_LENGTH);
  return `${whole}.${String(micros).padStart(6, '0')}Z`;
}
