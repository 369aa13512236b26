import { parseIdentifier } from '../../../flow/index.js';
import type { BackfillPlan } from '../../port/RangeBook.js';
import type { HeightRange, SporkRecord, StoreMeta } from '../../port/stored.js';

/** JSON with its keys in a fixed order: readable with any tool, and equal bytes for equal content. */
export function encodeMeta({ schemaVersion, chainId, firstHeight, createdBy, sporks }: StoreMeta): Buffer {
  const ordered = { schemaVersion, chainId, firstHeight, createdBy, sporks: sporks.map(inOrder) };
  return Buffer.from(JSON.stringify(ordered));
}

/**
 * `undefined` when the payload is not a meta record. Of a schema newer than `schemaVersion` only version and chain id are
 * read: the rest may have another meaning.
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

/** The record of an open range. */
export interface OpenRecord extends HeightRange {
  readonly next: number;
  readonly failures: number;
  readonly reason: string | undefined;
  /** Sporks first seen with a block of it, for the meta record once it is published. */
  readonly sporks: readonly SporkRecord[];
  /** All of its blocks have their account entries. */
  readonly hasAccounts: boolean;
  /** The blocks above this height are being removed. */
  readonly keep: number | undefined;
  /** The range itself is removed after its last block. */
  readonly isDropped: boolean;
}

/** A reason is a sentence or two. */
const MAX_REASON_CHARACTERS = 1_000;

/** Like `encodeMeta`; the key holds `from`. */
export function encodeOpenRecord(record: OpenRecord): Buffer {
  const { to, next, failures, reason, sporks, hasAccounts, keep, isDropped } = record;
  return Buffer.from(
    JSON.stringify({
      to,
      next,
      failures,
      reason: reason?.slice(0, MAX_REASON_CHARACTERS),
      sporks: sporks.map(inOrder),
      hasAccounts,
      keep: keep === undefined ? undefined : keep + 1,
      isDropped,
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
    from,
    to,
    next,
    failures,
    reason,
    sporks,
    hasAccounts,
    isDropped,
    keep: keep === undefined ? undefined : keep - 1,
  };
}

/** Like `encodeMeta`. */
export function encodePlans(plans: readonly BackfillPlan[]): Buffer {
  const ordered = plans.map(({ id, from, to, order, isPaused, heals }) => ({
    id,
    from,
    to,
    order,
    isPaused,
    heals: heals === true ? true : undefined,
  }));
  return Buffer.from(JSON.stringify(ordered));
}

/** `undefined` unless the payload is a list of plans. */
export function decodePlans(payload: Buffer): readonly BackfillPlan[] | undefined {
  const json = parseJson(payload);
  return Array.isArray(json) && json.every(isPlan) ? json : undefined;
}

function isPlan(value: unknown): value is BackfillPlan {
  if (!isRecord(value)) return false;
  const { id, from, to, order, isPaused, heals } = value;
  if (heals !== undefined && typeof heals !== 'boolean') return false;
  if (!isHeight(id) || !isHeight(from) || !isHeight(to) || to < from) return false;
  return (order === 'newest' || order === 'oldest') && typeof isPaused === 'boolean';
}

function inOrder({ rootHeight, sporkId, rootParentId }: SporkRecord): SporkRecord {
  return { rootHeight, sporkId, ...(rootParentId === undefined ? {} : { rootParentId }) };
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
