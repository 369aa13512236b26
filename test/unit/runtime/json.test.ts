import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseJson } from '../../../src/runtime/index.js';

it('is read like any other', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(parseJson(JSON.stringify(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

it.each([
  ['{"a": 1,\n}', 'Expected double-quoted property name', 2, 1],
  ['{\r\n  "a": 1,\r\n  "b": nul,\r\n}', "Unexpected token ','", 3, 11],
  ['{"a": 1, // why\n "b": 2}', 'Expected double-quoted property name', 1, 10],
  ['{\n "a": /* why */ 1}', "Unexpected token '/'", 2, 7],
  ['# why\n{}', "Unexpected token '#'", 1, 1],
  ['{"a": 1}\nb', 'Unexpected non-whitespace character', 2, 1],
  ['{"a": [1, 2\n', "Expected ',' or ']' after array element", 2, 1],
  ['{"a":', 'Unexpected end', 1, 6],
  ['', 'Unexpected end', 1, 1],
  ['ser:sesame@node"]', "Unexpected token 's'", 1, 1],
])('is refused with what is wrong in which line and column: %j', (text, what, line, column) => {
  const where = `${what} in JSON at line ${line}, column ${column}`;
  expect(() => parseJson(text)).toThrow(new SyntaxError(where));
});

it.each([
  ['{"a": 1,\n"b": {"a": 2},\n\n"a": 3}', 'lines 1 and 4 both set a; keep one of them'],
  ['{"a": {"x": 1}, "a": {"y": 2}}', 'line 1 sets a twice; keep one of them'],
  ['[{"a": 1}, {"b": "\\"a\\": {", "a{": 1, "b": 2}]', 'line 1 sets b twice; keep one of them'],
])('is refused with a key that is there twice: %j', (text, why) => {
  expect(() => parseJson(text)).toThrow(new Error(why));
});

it('may have two comments', () => {
  expect(parseJson('{"$comment": "a", "list": [{"a": 1}, {"a": "}"}], "$comment": "b"}')).toBeDefined();
});

it('is refused without a word of it', () => {
  const fault = (text: string) => () => parseJson(text);
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
