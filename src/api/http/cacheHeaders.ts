import { createHash } from 'node:crypto';
import type { Validity } from './types.js';

/** Part of every tag. Raise it when the same question is answered with other bytes than before: the shape changed. */
const SHAPES_GENERATION = 1;
/** Of a tag: 132 bits, too many for two answers to share one. */
const TAG_CHARACTERS = 22;
/** As long as a cache may keep anything. */
const FOREVER_SECONDS = 31_536_000;
/** What the tag of a compressed answer ends with: a strong tag belongs to one sequence of bytes. */
export const GZIP_SUFFIX = '-gzip';

/** A tag that changes whenever one of the parts does. */
export function entityTag(...parts: readonly (string | readonly string[])[]): string {
  const text = JSON.stringify([SHAPES_GENERATION, ...parts]);
  return createHash('sha256').update(text).digest('base64url').slice(0, TAG_CHARACTERS);
}

export function cacheControl(validity: Validity | undefined): string {
  if (validity === undefined) return 'no-store';
  return validity.isForever ? `public, max-age=${FOREVER_SECONDS}, immutable` : 'no-cache';
}

/**
 * The tag that `If-None-Match` names, quoted, when it is one of this answer, compressed or not; `undefined` when the caller
 * does not hold the answer. `*` is held by whoever holds anything.
 */
export function heldTag(ifNoneMatch: string | undefined, tag: string): string | undefined {
  if (ifNoneMatch === undefined) return undefined;
  const own = [`"${tag}"`, `"${tag}${GZIP_SUFFIX}"`];
  for (const item of ifNoneMatch.split(',')) {
    const named = item.trim().replace(/^W\//, '');
    if (own.includes(named)) return named;
    if (named === '*') return own[0];
  }
  return undefined;
}
