/** A moment, to the microsecond, which is what databases keep, and what is below that. */
export interface Time {
  /** Since the Unix epoch. */
  readonly microseconds: bigint;
  /** 0 to 999, to be added. */
  readonly nanoseconds: number;
}

const SECONDS_LENGTH = 'YYYY-MM-DDTHH:MM:SS'.length;
/** How a block without a timestamp is written. */
const NO_TIME = '0001-01-01T00:00:00Z';

/** Reads RFC 3339 in UTC, with any number of digits up to nine; null where a block has no timestamp. */
export function timeOf(rfc3339: string): Time | null {
  if (rfc3339 === NO_TIME) return null;
  const whole = rfc3339.slice(0, SECONDS_LENGTH);
  const digits = rfc3339.slice(SECONDS_LENGTH + 1, -1).padEnd(9, '0');
  const micros = digits.slice(0, 6);
  return {
    microseconds: BigInt(Date.parse(`${whole}Z`)) * 1_000n + BigInt(micros),
    nanoseconds: Number(digits.slice(6)),
  };
}

/** RFC 3339 in UTC, always with six digits of a second. */
export function timeText(microseconds: bigint): string {
  const micros = ((microseconds % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const whole = new Date(Number((microseconds - micros) / 1_000n)).toISOString().slice(0, SECONDS_LENGTH);
  return `${whole}.${String(micros).padStart(6, '0')}Z`;
}
