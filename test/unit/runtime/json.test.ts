import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/runtime/index.js';

describe('JSON that somebody wrote', () => {
  it('is read like any other', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(parseJson(JSON.stringify(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('is refused with what is wrong, and without a word of it', () => {
    const fault = (text: string) => () => parseJson(text);
    expect(fault('{"a": 1,\n}')).toThrow(/in JSON at position 9/);
    expect(fault('ser:sesame@node"]')).toThrow(/^Unexpected token 's' in JSON$/);
    expect(fault('{"nodes": ["http://user:sesame@node"],\n x "later": 1}')).toThrow(SyntaxError);
    const password = 'sesame';
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, after) => {
        try {
          parseJson(`${before}${password}${after}`);
        } catch (error) {
          expect(error).toBeInstanceOf(SyntaxError);
          expect(String(error)).not.toContain(password);
        }
      }),
    );
  });
});
