import { parseIdentifier } from '../../flow/index.js';
import type { CoveredRange, Coverage } from './accountCoverage.js';
import type { BackfillPlan, HeightRange, SporkRecord, StoreMeta } from '../IndexStore.js';
import { writeHeight, tryReadHeight } from './schema.js';

/** Payload of a block record: everything of a block except its collections' bodies. */
export interface BlockRecord {
  /** The canonical light form. */
  readonly encoded: Uint8Array;
  /** In guarantee order. */
  readonly collections: readonly CollectionShape[];
  readonly bodyLength: number;
}
export interface CollectionShape {
  /** Bytes in the body. */
  readonly length: number;
  readonly transactionCount: number;
}

const BLOCK_HEADER_BYTES = 8;
const SHAPE_BYTES = 8;

/** `u32 body length, u32 collections, (u32 length, u32 transaction count)*, canonical block`. */
export function encodeBlockRecord({ encoded, collections, bodyLength }: BlockRecord): Buffer {
  const start = BLOCK_HEADER_BYTES + SHAPE_BYTES * collections.length;
  const payload = Buffer.allocUnsafe(start + encoded.length);
  payload.writeUInt32BE(bodyLength, 0);
  payload.writeUInt32BE(collections.length, 4);
  collections.forEach(({ length, transactionCount }, index) => {
    payload.writeUInt32BE(length, BLOCK_HEADER_BYTES + SHAPE_BYTES * index);
    payload.writeUInt32BE(transactionCount, BLOCK_HEADER_BYTES + SHAPE_BYTES * index + 4);
  });
  payload.set(encoded, start);
  return payload;
}

/** `undefined` when the payload is not a block record. */
export function decodeBlockRecord(payload: Buffer): BlockRecord | undefined {
  if (payload.length < BLOCK_HEADER_BYTES) return undefined;
  const bodyLength = payload.readUInt32BE(0);
  const count = payload.readUInt32BE(4);
  const start = BLOCK_HEADER_BYTES + SHAPE_BYTES * count;
  if (payload.length < start) return undefined;
  const collections: CollectionShape[] = [];
  let total = 0;
  for (let at = BLOCK_HEADER_BYTES; at < start; at += SHAPE_BYTES) {
    const length = payload.readUInt32BE(at);
    collections.push({ length, transactionCount: payload.readUInt32BE(at + 4) });
    total += length;
  }
  if (total !== bodyLength) return undefined;
  return { encoded: payload.subarray(start), collections, bodyLength };
}

const HEIGHT_BYTES = 8;

/** The watermark may be -1 (a chain indexed from its height 0), so the record holds the height above it. */
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

/** The work left of a rewind: heights `target + 1 … remaining`. Written before anything is removed. */
export interface RewindIntent {
  readonly target: number;
  readonly remaining: number;
  /** The watermark before: a missing record at or below it is damage, one above it a gap. */
  readonly watermarkBefore: number;
  /** Damage was found: the pointers of some block cannot be derived and are searched for one by one. */
  readonly sweep: boolean;
  /**
   * In a store with several ranges: the heights above the target whose block existed before, instead of all heights up
   * to the watermark before.
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

/** `(u64 from, u64 to)*`; the height 2^53 - 1 stands for an open end. */
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
  const ranges: CoveredRange[] = [];
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

/** The record of an open range. */
export interface OpenRecord extends HeightRange {
  readonly next: number;
  readonly failures: number;
  readonly reason: string | undefined;
  /** Sporks first seen with a block of it, for the meta record once it is published. */
  readonly sporks: readonly SporkRecord[];
  /** All of its blocks have their account entries. */
  readonly hasAccounts: boolean;
  /** Blocks are being removed: all above this height. */
  readonly keep: number | undefined;
  /** The range itself goes with its last block. */
  readonly isDropped: boolean;
}

/** A reason is a sentence or two. */
const MAX_REASON_CHARACTERS = 1_000;

/** Like `encodeMeta`; the key holds `from`. */
export function encodeOpenRecord(record: OpenRecord): Buffer {
  const { to, next, failures, reason, sporks, hasAccounts, keep, isDropped } = record;
  return Buffer.from(
    JSON.stringify({
      ...{ to, next, failures, reason: reason?.slice(0, MAX_REASON_CHARACTERS) },
      ...{
        sporks: sporks.map(inOrder),
        hasAccounts,
        keep: keep === undefined ? undefined : keep + 1,
        isDropped,
      },
    }),
  );
}

/** `undefined` unless the payload is the record of an open range. */
export function decodeOpenRecord(from: number, payload: Buffer): OpenRecord | undefined {
  const json = parseJson(payload);
  if (!isRecord(json)) return undefined;
  const { to, next, failures, reason, sporks, hasAccounts, keep, isDropped } = json;
  if (!isHeight(to) || !isHeight(next) || next < from || next > to || !isHeight(failures)) return undefined;
  if (reason !== undefined && typeof reason !== 'string') return undefined;
  if (!Array.isArray(sporks) || !sporks.every(isSporkRecord)) return undefined;
  if (typeof hasAccounts !== 'boolean' || typeof isDropped !== 'boolean') return undefined;
  if (keep !== undefined && !isHeight(keep)) return undefined;
  return {
    ...{ from, to, next, failures, reason, sporks, hasAccounts, isDropped },
    keep: keep === undefined ? undefined : keep - 1,
  };
}

/** Like `encodeMeta`. */
export function encodePlans(plans: readonly BackfillPlan[]): Buffer {
  const ordered = plans.map(({ id, from, to, order, isPaused }) => ({ id, from, to, order, isPaused }));
  return Buffer.from(JSON.stringify(ordered));
}

/** `undefined` unless the payload is a list of plans. */
export function decodePlans(payload: Buffer): readonly BackfillPlan[] | undefined {
  const json = parseJson(payload);
  return Array.isArray(json) && json.every(isPlan) ? json : undefined;
}

function isPlan(value: unknown): value is BackfillPlan {
  if (!isRecord(value)) return false;
  const { id, from, to, order, isPaused } = value;
  if (!isHeight(id) || !isHeight(from) || !isHeight(to) || to < from) return false;
  return (order === 'newest' || order === 'oldest') && typeof isPaused === 'boolean';
}

function inOrder({ rootHeight, sporkId, rootParentId }: SporkRecord): SporkRecord {
  return { rootHeight, sporkId, ...(rootParentId === undefined ? {} : { rootParentId }) };
}

/** JSON with its keys in a fixed order: readable with any tool, and equal bytes for equal content. */
export function encodeMeta({ schemaVersion, chainId, firstHeight, createdBy, sporks }: StoreMeta): Buffer {
  return Buffer.from(
    JSON.stringify({
      schemaVersion,
      chainId,
      firstHeight,
      createdBy,
      sporks: sporks.map(inOrder),
    }),
  );
}

/**
 * `undefined` when the payload is not a meta record. Of a newer schema only `schemaVersion` and `chainId` are read: the
 * rest may have another meaning.
 */
export function decodeMeta(payload: Buffer, schemaVersion: number): StoreMeta | undefined {
  const json = parseJson(payload);
  if (!isRecord(json)) return undefined;
  const { schemaVersion: version, chainId, firstHeight, createdBy, sporks } = json;
  if (typeof version !== 'number' || typeof chainId !== 'string') return undefined;
  if (version > schemaVersion) {
    return { schemaVersion: version, chainId, firstHeight: 0, createdBy: '', sporks: [] };
  }
  if (!isHeight(firstHeight) || typeof createdBy !== 'string' || !Array.isArray(sporks)) return undefined;
  if (!sporks.every(isSporkRecord)) return undefined;
  return { schemaVersion: version, chainId, firstHeight, createdBy, sporks };
}

function parseJson(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'));
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isHeight(value: unknown): value is number {
  return Number.isSafeInteger(value) && typeof value === 'number' && value >= 0;
}

function isSporkRecord(value: unknown): value is SporkRecord {
  if (!isRecord(value) || !isHeight(value['rootHeight']) || typeof value['sporkId'] !== 'string')
    return false;
  const { rootParentId } = value;
  return (
    rootParentId === undefined ||
    (typeof rootParentId === 'string' && parseIdentifier(rootParentId) === rootParentId)
  );
}
