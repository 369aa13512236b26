import { expect } from 'vitest';
import { checkDocument, type VerifyCertificate } from '../../src/proof/index.js';

const example = new URL('../../docs/examples/check-proof.mjs', import.meta.url).href;
export const { checkProof, Misfit } = (await import(example)) as {
  readonly checkProof: (text: string, trusted: string) => string[];
  readonly Misfit: new () => Error;
};

/** What the command and the example say of a document, which must be the same; `undefined`: it is refused. */
export function bothCheckers(
  text: string,
  trusted: string,
  verify: VerifyCertificate,
): readonly string[] | undefined {
  const verdict = checkDocument(text, trusted, verify);
  let said: string[] | undefined;
  try {
    said = checkProof(text, trusted);
  } catch (error) {
    if (!(error instanceof Misfit || error instanceof SyntaxError)) throw error;
  }
  expect(said).toEqual(verdict.ok ? verdict.proven : undefined);
  return said;
}
