import type { CodeInfo } from '../types.js';

/** Readiness codes: what each means, and what to do. */
export type Codes = Readonly<Record<string, CodeInfo>>;

/** The codes in the page. */
export function readCodes(): Codes {
  const text = document.getElementById('readiness-codes')?.textContent;
  return JSON.parse(text ?? '{}') as Codes;
}
