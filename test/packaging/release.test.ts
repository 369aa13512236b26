import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, vi } from 'vitest';
import { programVersion } from '../../src/app/index.js';
import { scratchDirectory } from '../support/program.js';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const base = `flow-collection-indexer-${programVersion}`;
const release = (folder: string, ...args: string[]) =>
  run(process.execPath, [join(folder, 'scripts/release.mjs'), ...args], { cwd: folder });

interface Refusal {
  readonly code: number;
  readonly stderr: string;
}

vi.setConfig({ testTimeout: 300_000 });
it('builds, dry, everything that would be published, and says what comes next', async () => {
  const out = scratchDirectory();
  const { stdout } = await run('npm', ['run', 'release', '--', '--dry-run', '--out', out], { cwd: root });
  const text = (file: string): string => readFileSync(join(out, file), 'utf8');
  const files = text('SHA256SUMS').trim().split('\n');
  expect(files.map((line) => line.split('  ')[1])).toEqual([
    'RELEASE_NOTES.md',
    `${base}-image-context.tar.gz`,
    `${base}-image-context.txt`,
    `${base}.cyclonedx.json`,
    `${base}.spdx.json`,
    `${base}.tgz`,
  ]);
  for (const line of files) {
    const [sum = '', file = ''] = line.split('  ');
    const hash = createHash('sha256').update(readFileSync(join(out, file)));
    expect(hash.digest('hex'), file).toBe(sum);
  }
  expect(stdout).toContain(`npm publish `);
  expect(stdout).toContain(`git tag --sign`);
  // What only the owner can decide.
  for (const missing of ['has no licence', 'names no repository', 'names no place for bug reports'])
    expect(stdout).toContain(missing);

  // What an installation brings by the lockfile, and what the script of the status page contains.
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version: string; readonly dev?: boolean }>>;
  };
  const shipped = Object.entries(packages)
    .filter(([path, { dev }]) => path !== '' && (dev !== true || path === 'node_modules/preact'))
    .map(([path, { version }]) => [path.slice(path.lastIndexOf('node_modules/') + 13), version] as const);
  expect(shipped.map(([name]) => name)).toContain('@grpc/grpc-js');
  const cyclonedx = JSON.parse(text(`${base}.cyclonedx.json`)) as {
    bomFormat: string;
    metadata: { component: { name: string } };
    components: { name: string; version: string; purl: string; hashes?: unknown[] }[];
  };
  const spdx = JSON.parse(text(`${base}.spdx.json`)) as {
    spdxVersion: string;
    name: string;
    packages: { name: string; versionInfo: string }[];
  };
  expect([cyclonedx.bomFormat, spdx.spdxVersion]).toEqual(['CycloneDX', 'SPDX-2.3']);
  expect([cyclonedx.metadata.component.name, spdx.name]).toEqual([
    'flow-collection-indexer',
    `flow-collection-indexer@${programVersion}`,
  ]);
  for (const [name, version] of shipped) {
    expect(cyclonedx.components).toContainEqual(
      expect.objectContaining({ purl: expect.stringContaining(`@${version}`) as string, version }),
    );
    expect(spdx.packages).toContainEqual(expect.objectContaining({ name, versionInfo: version }));
  }
  expect(spdx.packages).toHaveLength(1 + shipped.length);
  expect(cyclonedx.components).toHaveLength(shipped.length);

  expect(text('RELEASE_NOTES.md')).toMatch(/^# flow-collection-indexer \d[^]*^- A daemon/m);
  // Nothing in a release folder stands at the end of a relative link.
  expect(text('RELEASE_NOTES.md')).not.toMatch(/\]\((?!https?:)/);
  // Every file that the Dockerfile copies is in what Docker is given.
  const context = text(`${base}-image-context.txt`).split('\n');
  const copied = [...readFileSync(join(root, 'Dockerfile'), 'utf8').matchAll(/^COPY (?!--from)(.+) \S+$/gm)];
  expect(copied.length).toBeGreaterThan(4);
  for (const path of copied.flatMap(([, paths = '']) => paths.split(' ')))
    expect(context.some((file) => file === path || file.startsWith(`${path}/`))).toBe(true);
  expect(context.filter((file) => /^(?:test|node_modules|dist)\//.test(file))).toEqual([]);
});

async function clone(changes: Readonly<Record<string, (text: string) => string>>): Promise<string> {
  const folder = join(scratchDirectory(), 'clone');
  await run('git', ['clone', '--quiet', '--no-hardlinks', '--depth', '1', `file://${root}`, folder]);
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'scripts/release.mjs'), readFileSync(join(root, 'scripts/release.mjs')));
  for (const [file, change] of Object.entries(changes))
    writeFileSync(join(folder, file), change(readFileSync(join(folder, file), 'utf8')));
  return folder;
}

it('refuses versions that contradict each other, before it builds anything', async () => {
  const folder = await clone({
    'package.json': (text) => text.replace(/"version": ".*"/, '"version": "9.9.9"'),
  });
  const refused: Refusal = await release(folder, '--dry-run').then(
    () => ({ code: 0, stderr: '' }),
    (error: unknown) => error as Refusal,
  );
  expect(refused.code).toBe(1);
  for (const place of ['package-lock.json', 'CHANGELOG.md', 'Dockerfile', 'leveldb/kustomization.yaml'])
    expect(refused.stderr).toMatch(
      new RegExp(`${place}.* says .*, package.json says 9.9.9: make them agree`),
    );
  expect(refused.stderr).toContain('Nothing was built.');
});

it('refuses, when it is meant, a tree that is not clean and a version that is not released', async () => {
  const folder = await clone({ 'README.md': (text) => `${text}\n` });
  await expect(release(folder)).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /CHANGELOG\.md calls .* put the day[^]*not clean[^]*M README\.md/,
    ) as string,
  });
  await expect(release(folder, '--publish')).rejects.toMatchObject({ code: 64 });

  // The tag of the version starts its publication: it may be on what is built, and on nothing else.
  const git = (...args: string[]) =>
    run('git', ['-c', 'user.name=A', '-c', 'user.email=a@example.org', ...args], { cwd: folder });
  await git('tag', `v${programVersion}`);
  const wrong = async (): Promise<string> =>
    ((await release(folder).catch((error: unknown) => error)) as Refusal).stderr;
  expect(await wrong()).not.toContain('is on another commit');
  await git('commit', '--quiet', '--all', '--message', 'A change');
  expect(await wrong()).toContain(`The tag v${programVersion} is on another commit`);
});
