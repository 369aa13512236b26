import { messageOf, readJson, RefusedError } from './Connection.js';
import type { Explanation } from '../types.js';

/** The beginning of the address fragment that names what to find. */
const FIND = '#find=';

export function findHref(key: string): string {
  return FIND + encodeURIComponent(key);
}

/** The key in the address; `undefined` if there is none. */
export function keyOfAddress(): string | undefined {
  const { hash } = window.location;
  const key = hash.startsWith(FIND) ? decodeURIComponent(hash.slice(FIND.length)).trim() : '';
  return key === '' ? undefined : key;
}

/** A height or an id as people write it, with commas and spaces removed. */
export function cleaned(text: string): string {
  const bare = text.trim();
  return /^[\d,._\s’']+$/.test(bare) ? bare.replaceAll(/\D/g, '') : bare;
}

/** What was found. */
export interface Found {
  readonly key: string;
  readonly explanation: Explanation;
  /** The document, or a sentence that says why there is none. */
  readonly document: { readonly path: string; readonly body: unknown } | { readonly why: string };
}

/** Explains a height or an id, and fetches its document. Expected errors: those of `readJson`. */
export async function find(key: string): Promise<Found> {
  const explanation = await readJson<Explanation>(`explain/${encodeURIComponent(key)}`);
  return { key, explanation, document: await documentOf(key, explanation) };
}

async function documentOf(key: string, { kind, stage }: Explanation): Promise<Found['document']> {
  if (kind === 'unknown' || stage !== 'indexed')
    return { why: 'There is no document while it is not indexed.' };
  const path = `lookup/${kind === 'height' ? 'block' : kind}/${encodeURIComponent(key)}`;
  try {
    return { path, body: await readJson<unknown>(path) };
  } catch (error) {
    return { why: error instanceof RefusedError ? error.message : messageOf(error) };
  }
}
