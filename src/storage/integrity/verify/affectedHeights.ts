import type { KeySpan } from '../../files/format/manifest.js';
import { parseBlockKey, parseBodyKey, Prefix } from '../../records/schema.js';

/**
 * The heights whose block records or bodies lie between two keys, in words. "any" between other keys: pointers, which are
 * ordered by id, and the records of the store.
 */
export function affectedHeights({ from, through }: Partial<KeySpan>): string {
  const first = from?.[0] ?? 0;
  const last = through?.[0] ?? Infinity;
  if (first < Prefix.block || last > Prefix.body) return 'any';
  const spans = [Prefix.block, Prefix.body]
    .filter((prefix) => prefix >= first && prefix <= last)
    .map((prefix) => ({
      from: from !== undefined && prefix === first ? heightOf(from) : undefined,
      to: through !== undefined && prefix === last ? heightOf(through) : undefined,
    }));
  return spans.map(inWords).join(', ');
}

/** The separator between two blocks of a table may be shorter than a whole key. */
function heightOf(key: Buffer): number | undefined {
  const whole = Buffer.concat([key, Buffer.alloc(Math.max(0, WHOLE_BYTES - key.length))]).subarray(
    0,
    WHOLE_BYTES,
  );
  return parseBlockKey(whole) ?? parseBodyKey(Buffer.concat([whole, Buffer.alloc(4)]))?.height;
}

const WHOLE_BYTES = 9;

function inWords({
  from,
  to,
}: {
  readonly from: number | undefined;
  readonly to: number | undefined;
}): string {
  if (from === undefined) return to === undefined ? 'any' : `up to ${to}`;
  if (to === undefined) return `${from} and above`;
  return from === to ? String(from) : `${from} to ${to}`;
}
