import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { chosenFrom, conclude, playEach, wholeNumber } from '../support/campaign.js';

afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

it('plays every scene of a campaign, also behind one that fails, and tells how to play that again', async () => {
  const print = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  const scenes = [{ name: 'flood' }, { name: 'calm' }];
  const played = await playEach(
    scenes,
    ({ name }) => (name === 'flood' ? Promise.reject(new Error('it is wet')) : 'kept'),
    { again: ({ name }) => `again: ${name}` },
  );
  expect(played.map(({ name, failure }) => [name, failure?.split('\n')[0] ?? null])).toEqual([
    ['flood', 'Error: it is wet'],
    ['calm', null],
  ]);
  const printed = print.mock.calls.map(([text]) => String(text)).join('');
  expect(printed).toMatch(
    /^flood +\d+\.\d s {2}FAILED: Error: it is wet[\s\S]*\n {2}again: flood\ncalm .* kept\n$/,
  );
});

it('ends a campaign with its report, and with 1 if something failed', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'fci-campaign-')), 'report.json');
  conclude(0, { file, of: { failures: 0 } });
  expect(process.exitCode).toBeUndefined();
  conclude(2, { file, of: { failures: 2 } });
  expect([process.exitCode, JSON.parse(readFileSync(file, 'utf8'))]).toEqual([1, { failures: 2 }]);
});

it('ends a campaign with 64 when nothing bears the name, or a number is none', () => {
  vi.spyOn(process, 'exit').mockImplementation((code) => {
    throw new Error(`exit ${code}`);
  });
  const errors = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const all = [{ name: 'flood' }, { name: 'calm' }];
  expect(chosenFrom(all, 'flo', (name, only) => name.startsWith(only))).toEqual([{ name: 'flood' }]);
  expect(() => chosenFrom(all, 'storm')).toThrow('exit 64');
  expect(() => wholeNumber('seed', '1.5')).toThrow('exit 64');
  expect(errors.mock.calls.join()).toContain('There is no storm. There are: flood, calm.');
});
