import { expect, it } from 'vitest';
import { scriptsSeen, type ScriptAt } from '../../../src/storage/postgres/tables/scriptsSeen.js';

it('remembers at most 20,000 scripts or 16 MiB of them, by their bytes alone', () => {
  const at = (scriptAt: ScriptAt, bytes: Buffer) =>
    scriptAt(Buffer.concat([Buffer.of(9), bytes]), 1, bytes.length);
  const small = scriptsSeen();
  const numbered = (index: number): Buffer => Buffer.from(`script ${index}`);
  const [first] = Array.from({ length: 20_000 }, (_, index) => at(small, numbered(index)));
  expect(at(small, numbered(0)) === first).toBe(true);
  at(small, numbered(20_000));
  expect(at(small, numbered(0)) === first, 'forgotten').toBe(false);
  expect(at(small, numbered(0)).hash).toEqual(first?.hash);

  const large = scriptsSeen();
  const filled = (byte: number): Buffer => Buffer.alloc(1024 * 1024, byte);
  const [one] = Array.from({ length: 17 }, (_, byte) => at(large, filled(byte)));
  expect(at(large, filled(0)) === one).toBe(false);

  // Both have the checksum 1306201125 (a well-known collision of CRC-32).
  const alike = ['plumless', 'buckeroo'].map((text) => at(small, Buffer.from(text)));
  expect(alike.map(({ body }) => body.toString())).toEqual(['plumless', 'buckeroo']);
});
