import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly overrides: Readonly<Record<string, unknown>>;
};
const page = readFileSync(join(root, 'docs/dependencies.md'), 'utf8');
const [running = '', developing = ''] = page.split('## For development');

function namedIn(text: string): string[] {
  const cells = text.split('\n').flatMap((line) => /^\| (`[^|]*) \|/.exec(line)?.[1] ?? []);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)).sort();
}

it('gives a reason for every package that the daemon or development needs, and for no other, says what is true of versions, and leaves no host of a registry in the lockfile', () => {
  expect(namedIn(running)).toEqual(Object.keys(manifest.dependencies).sort());
  expect(namedIn(developing)).toEqual(Object.keys(manifest.devDependencies).sort());
  // Ranges for what runs, exact ones for development, and no other overrides.
  for (const [name, range] of Object.entries(manifest.dependencies))
    expect(range, name).toMatch(name === 'pg-boss' ? /^~\d/ : /^\^\d/);
  for (const [name, version] of Object.entries(manifest.devDependencies))
    expect(version, name).toMatch(/^(?:npm:[a-z]+@)?\d[\w.-]*$/);
  expect(Object.keys(manifest.overrides)).toEqual(['openapi-typescript']);
  expect(page).toMatch(/`overrides` in `package.json` has one entry: `openapi-typescript`/);
  expect(readFileSync(join(root, 'package-lock.json'), 'utf8')).not.toMatch(
    /"resolved"|https?:\/\/[^"]*registry/,
  );
});
