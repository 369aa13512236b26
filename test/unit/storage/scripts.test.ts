import { expect, it } from 'vitest';
import { Scripts } from '../../../src/storage/postgres/tables/Scripts.js';

it('remembers scripts in two generations of at most 10,000 or 8 MiB, and of those only what is seen again', () => {
  const small = new Scripts();
  const numbered = (index: number): Buffer => Buffer.from(`script ${index}`);
  const at = (scripts: Scripts, bytes: Buffer) =>
    scripts.at(Buffer.concat([Buffer.of(9), bytes]), 1, bytes.length);
  const [first, seen] = [0, 1].map((index) => at(small, numbered(index)));
  for (let index = 2; index < 15_000; index += 1) at(small, numbered(index));
  expect(at(small, numbered(1)) === seen, 'of the generation before').toBe(true);
  for (let index = 15_000; index < 20_000; index += 1) at(small, numbered(index));
  expect(at(small, numbered(1)) === seen).toBe(true);
  expect(at(small, numbered(0)) === first, 'forgotten').toBe(false);
  expect(at(small, numbered(0)).hash).toEqual(first?.hash);

  const large = new Scripts();
  const filled = (byte: number): Buffer => Buffer.alloc(1024 * 1024, byte);
  const [one] = Array.from({ length: 17 }, (_, byte) => at(large, filled(byte)));
  expect(at(large, filled(0)) === one).toBe(false);
});
