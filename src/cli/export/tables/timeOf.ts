import type { Timestamp } from '../../../flow/index.js';

/** A moment, split into microseconds, which is the precision of databases, and the remaining nanoseconds. */
export interface Time {
  /** Since the Unix epoch. */
  readonly microseconds: bigint;
  /** 0 to 999. */
  readonly nanoseconds: number;
}

const SECONDS_LENGTH = 'YYYY-MM-DDTHH:MM:SS'.length;
/** The first second of the year 1: Go's zero time, for a block without a timestamp. */
const NO_TIME_SECONDS = -62_135_596_800n;

/** Null if the block has no timestamp. */
export function timeOf(timestamp: Timestamp | undefined): Time | null {
  if (timestamp === undefined) return null;
  const { seconds, nanos } = timestamp;
  if (seconds === NO_TIME_SECONDS && nanos === 0) return null;
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
