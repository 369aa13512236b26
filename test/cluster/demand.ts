/** A promise was broken. */
export class Verdict extends Error {
  override readonly name = 'Verdict';
}

/** Expected errors: `Verdict`. */
export function demand(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Verdict(what);
}
