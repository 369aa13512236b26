import { refuse } from './Format.js';
import type { Format } from './Format.js';

/** The heights of a plan to fill history in, as operators write them. */
export interface HeightsToFill {
  readonly from: number | 'root' | 'everything' | { readonly spork: string };
  /** `undefined`: up to the live range. */
  readonly to: number | undefined;
}

const HEIGHTS_TO_FILL =
  /^(?:(?<word>root|everything)|spork:(?<spork>[\w.-]+)|(?<from>\d{1,16}))(?:\.\.(?<to>\d{1,16}))?$/;

/** Parses a text of the format `heightsToFill`; `undefined` for any other text. */
export function readHeightsToFill(text: string): HeightsToFill | undefined {
  const { word, spork, from, to } = HEIGHTS_TO_FILL.exec(text)?.groups ?? {};
  const last = to === undefined ? undefined : Number(to);
  if (word === 'root' || word === 'everything') return { from: word, to: last };
  if (spork !== undefined) return { from: { spork }, to: last };
  return from === undefined ? undefined : { from: Number(from), to: last };
}

/** The start of a plan and, after two dots, its end. */
export const heightsToFill: Format<string> = (() => {
  const allowed =
    'a range of heights: FROM or FROM..TO, where FROM is a height, root, spork:NAME or everything, and TO a height';
  const check = (value: unknown): string => {
    const read = typeof value === 'string' ? readHeightsToFill(value) : undefined;
    const isInOrder = typeof read?.from !== 'number' || read.from <= (read.to ?? Infinity);
    return read !== undefined && isInOrder ? String(value) : refuse(value, allowed);
  };
  return { allowed, check, parse: check };
})();
