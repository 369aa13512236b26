import type { HeightRange } from '../../port/stored.js';
import type { Coverage } from '../accountCoverage.js';

const HEIGHT_BYTES = 8;

/** The watermark may be -1 (a chain that is indexed from height 0), so the record holds the height above it. */
export function encodeProgress(latestIndexedHeight: number): Buffer {
  const payload = Buffer.allocUnsafe(HEIGHT_BYTES);
  writeHeight(payload, latestIndexedHeight + 1, 0);
  return payload;
}

export function decodeProgress(payload: Buffer): number | undefined {
  if (payload.length !== HEIGHT_BYTES) return undefined;
  const next = tryReadHeight(payload, 0);
  return next === undefined ? undefined : next - 1;
}

/** The remaining work of a rewind: heights `target + 1 … remaining`. Written before anything is removed. */
export interface RewindIntent {
  readonly target: number;
  readonly remaining: number;
  /** The watermark before: a missing record at or below it is damage, one above it a gap. */
  readonly watermarkBefore: number;
  /** Damage was found: the pointers of some block cannot be derived, so that all pointers must be searched. */
  readonly sweep: boolean;
  /**
   * In a store with several ranges: the heights above the target whose block existed before the rewind. Default: all
   * heights above the target up to `watermarkBefore`.
   */
  readonly covered?: readonly HeightRange[] | undefined;
}

const REWIND_BYTES = 3 * HEIGHT_BYTES + 1;

export function encodeRewind(intent: RewindIntent): Buffer {
  const { target, remaining, watermarkBefore, sweep, covered = [] } = intent;
  const payload = Buffer.alloc(REWIND_BYTES);
  writeHeight(payload, target + 1, 0);
  writeHeight(payload, remaining + 1, HEIGHT_BYTES);
  writeHeight(payload, watermarkBefore + 1, 2 * HEIGHT_BYTES);
  payload[3 * HEIGHT_BYTES] = sweep ? 1 : 0;
  return Buffer.concat([payload, encodeCoverage(covered)]);
}

export function decodeRewind(payload: Buffer): RewindIntent | undefined {
  if (payload.length < REWIND_BYTES) return undefined;
  const covered = decodeCoverage(payload.subarray(REWIND_BYTES));
  const above = [0, 1, 2].map((index) => tryReadHeight(payload, index * HEIGHT_BYTES));
  const [target, remaining, watermark] = above;
  if (target === undefined || remaining === undefined || watermark === undefined) return undefined;
  if (covered === undefined) return undefined;
  return {
    target: target - 1,
    remaining: remaining - 1,
    watermarkBefore: watermark - 1,
    sweep: payload[3 * HEIGHT_BYTES] === 1,
    ...(covered.length === 0 ? {} : { covered }),
  };
}

const RANGE_BYTES = 2 * HEIGHT_BYTES;

/** `(u64 from, u64 to)*`; the height 2^53 - 1 means an open end. */
export function encodeCoverage(coverage: Coverage): Buffer {
  const payload = Buffer.allocUnsafe(RANGE_BYTES * coverage.length);
  coverage.forEach(({ from, to }, index) => {
    writeHeight(payload, from, RANGE_BYTES * index);
    writeHeight(payload, to, RANGE_BYTES * index + HEIGHT_BYTES);
  });
  return payload;
}

/** `undefined` unless the payload is a coverage: ascending ranges that do not touch. */
export function decodeCoverage(payload: Buffer): Coverage | undefined {
  if (payload.length % RANGE_BYTES !== 0) return undefined;
  const ranges: HeightRange[] = [];
  let lowest = 0;
  for (let at = 0; at < payload.length; at += RANGE_BYTES) {
    const from = tryReadHeight(payload, at);
    const to = tryReadHeight(payload, at + HEIGHT_BYTES);
    if (from === undefined || to === undefined || from < lowest || to < from) return undefined;
    ranges.push({ from, to });
    lowest = to + 2;
  }
  return ranges;
}

export function writeHeight(target: Buffer, height: number, offset: number): void {
  if (!Number.isSafeInteger(height) || height < 0) {
    throw new RangeError(`not a height: ${height}`);
  }
  target.writeUInt32BE(Math.floor(height / 2 ** 32), offset);
  target.writeUInt32BE(height % 2 ** 32, offset + 4);
}

/** `undefined` when the eight bytes are not a safe integer. */
export function tryReadHeight(source: Buffer, offset: number): number | undefined {
  const height = source.readUInt32BE(offset) * 2 ** 32 + source.readUInt32BE(offset + 4);
  return Number.isSafeInteger(height) ? height : undefined;
}
