import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readNamedFile } from '../../../src/runtime/index.js';

const folder = mkdtempSync(join(tmpdir(), 'fci-named-'));
const pipe = join(folder, 'pipe');
const file = join(folder, 'file');
execFileSync('mkfifo', [pipe]);
writeFileSync(file, 'x'.repeat(200_000));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('is read as a whole, up to a bound', () => {
  expect(readNamedFile(file).length).toBe(200_000);
  expect(() => readNamedFile(file, { maxBytes: 199_999 })).toThrow('it has more than 199999 bytes');
  expect(() => readNamedFile(folder)).toThrow('EISDIR');
  expect(() => readNamedFile(join(folder, 'none'))).toThrow('ENOENT');
});

it('is no pipe where it is to be read again, and no device that never ends', () => {
  expect(() => readNamedFile(pipe)).toThrow('it is a pipe or a device; name a file, which can be read');
  const endless = () => readNamedFile('/dev/zero', { maxBytes: 1_000, mayBePipe: true });
  expect(endless).toThrow('more than 1000 bytes');
  expect(readNamedFile('/dev/null', { mayBePipe: true }).length).toBe(0);
});

it('may be a pipe where it is read once: whoever writes may begin later, but not never', () => {
  const writer = spawn('/bin/sh', ['-c', 'sleep 0.3; printf first > "$0"', pipe]);
  expect(readNamedFile(pipe, { mayBePipe: true }).toString()).toBe('first');
  writer.kill();
  const never = () => readNamedFile(pipe, { mayBePipe: true, pipeLimitMs: 300 });
  expect(never).toThrow('nothing has come for 0.3 s');
});
