import { parseIdentifier } from '../../../flow/index.js';
import { jsonIn } from '../../../runtime/index.js';
import type { BackfillPlan, OpenRange } from '../../port/RangeBook.js';
import type { SporkRecord, StoreMeta } from '../../port/stored.js';

/** The fields of each record, and of what is in it, in the order in which they are written. */
const SPORK_FIELDS = ['rootHeight', 'sporkId', 'rootParentId'];
const META_FIELDS = ['schemaVersion', 'chainId', 'firstHeight', 'createdBy', 'sporks', ...SPORK_FIELDS];
const OPEN_FIELDS = ['to', 'next', 'failures', 'reason', 'sporks', 'hasAccounts', 'keep', 'isDropped'];
const PLAN_FIELDS = ['id', 'from', 'to', 'order', 'isPaused', 'heals'];

/** JSON with its keys in a fixed order: readable with any tool, and equal bytes for equal content. */
function encode(content: unknown, fields: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(content, [...fields]));
}

export function encodeMeta(meta: StoreMeta): Buffer {
  return encode(meta, META_FIELDS);
}

/**
 * `undefined` when the payload is not a meta record. Of a schema newer than `schemaVersion` only version and chain id are
 * read: the rest may have another meaning.
 */
export function decodeMeta(payload: Buffer, schemaVersion: number): StoreMeta | undefined {
  const json = jsonIn(payload.toString('utf8'));
  if (!has(json, { schemaVersion: isNumber, chainId: isText })) return undefined;
  if (json.schemaVersion > schemaVersion) return { ...json, firstHeight: 0, createdBy: '', sporks: [] };
  const isWhole = has(json, { firstHeight: isHeight, createdBy: isText, sporks: isListOf(isSpork) });
  return isWhole ? json : undefined;
}

export interface OpenRecord extends OpenRange {
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

/** The key holds `from`. */
export function encodeOpenRecord({ keep, reason, ...record }: OpenRecord): Buffer {
  const above = keep === undefined ? undefined : keep + 1;
  const content = { ...record, keep: above, reason: reason?.slice(0, MAX_REASON_CHARACTERS) };
  return encode(content, [...OPEN_FIELDS, ...SPORK_FIELDS]);
}

/** `undefined` unless the payload is the record of an open range. */
export function decodeOpenRecord(from: number, payload: Buffer): OpenRecord | undefined {
  const json = jsonIn(payload.toString('utf8'));
  const isRecord = has(json, {
    to: isHeight,
    next: isHeight,
    failures: isHeight,
    reason: isOptional(isText),
    sporks: isListOf(isSpork),
    hasAccounts: isFlag,
    keep: isOptional(isHeight),
    isDropped: isFlag,
  });
  if (!isRecord || json.next < from || json.next > json.to) return undefined;
  return { ...json, from, keep: json.keep === undefined ? undefined : json.keep - 1 };
}

export function encodePlans(plans: readonly BackfillPlan[]): Buffer {
  const content = plans.map((plan) => ({ ...plan, heals: plan.heals === true ? true : undefined }));
  return encode(content, PLAN_FIELDS);
}

/** `undefined` unless the payload is a list of plans. */
export function decodePlans(payload: Buffer): readonly BackfillPlan[] | undefined {
  const json = jsonIn(payload.toString('utf8'));
  return isListOf(isPlan)(json) ? json : undefined;
}

function isPlan(value: unknown): value is BackfillPlan {
  const fields = { id: isHeight, from: isHeight, to: isHeight, isPaused: isFlag, heals: isOptional(isFlag) };
  if (!has(value, { ...fields, order: isText }) || value.to < value.from) return false;
  return value.order === 'newest' || value.order === 'oldest';
}

function isSpork(value: unknown): value is SporkRecord {
  const isId = (id: unknown): id is string => isText(id) && parseIdentifier(id) === id;
  return has(value, { rootHeight: isHeight, sporkId: isText, rootParentId: isOptional(isId) });
}

type Check<T> = (value: unknown) => value is T;

/** True for an object that has these fields, each of which passes its check. */
function has<Source, Fields>(
  value: Source,
  checks: { readonly [Name in keyof Fields]: Check<Fields[Name]> },
): value is Source & { readonly [Name in keyof Fields]: Fields[Name] } {
  if (typeof value !== 'object' || value === null) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  return Object.entries<Check<unknown>>(checks).every(([name, check]) => check(fields[name]));
}

function isListOf<T>(check: Check<T>): Check<readonly T[]> {
  return (value): value is readonly T[] => Array.isArray(value) && value.every(check);
}

function isOptional<T>(check: Check<T>): Check<T | undefined> {
  return (value): value is T | undefined => value === undefined || check(value);
}

const isNumber: Check<number> = (value) => typeof value === 'number';
const isText: Check<string> = (value) => typeof value === 'string';
const isFlag: Check<boolean> = (value) => typeof value === 'boolean';
const isHeight: Check<number> = (value): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
