import { hash } from 'node:crypto';
import type { Validity } from '../types.js';

/** Part of every tag. Raise it when the shape of a response changes. */
const SHAPES_GENERATION = 1;
/** 132 bits: no two responses share a tag. */
const TAG_CHARACTERS = 22;
/** The longest that a cache may keep anything. */
const FOREVER_SECONDS = 31_536_000;
/** Ends the tag of a compressed response: a strong tag belongs to one sequence of bytes. */
export const GZIP_SUFFIX = '-gzip';

/** A tag that changes whenever one of the parts does. */
export function entityTag(...parts: readonly (string | readonly string[])[]): string {
  const text = JSON.stringify([SHAPES_GENERATION, ...parts]);
  return hash('sha256', text, 'base64url').slice(0, TAG_CHARACTERS);
}

export function cacheControl(validity: Validity | undefined): string {
  if (validity === undefined) return 'no-store';
  return validity.isForever ? `public, max-age=${FOREVER_SECONDS}, immutable` : 'no-cache';
}

/** The same for a response that not everybody gets: only its caller may keep it. `undefined`: nothing was said. */
export function privately(control: string | undefined): string {
  const directives = (control ?? '').split(',').map((directive) => directive.trim());
  const kept = directives.filter((one) => !/^(?:|public|private\b.*|s-maxage\b.*)$/i.test(one));
  return kept.includes('no-store') ? 'no-store' : ['private', ...kept].join(', ');
}

/**
 * The tag in `If-None-Match`, quoted, if it is this response's, compressed or not; `undefined` when the caller does not
 * have the response. `*` matches any.
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
