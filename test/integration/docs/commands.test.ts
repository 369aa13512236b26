import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { daemonSettings } from '../../../src/config/index.js';
import { environmentOf } from '../../../src/config/settings.js';
import { complaintsAgainst } from '../../docs/commandCheck.js';
import { pageAt, pages, root } from '../../docs/files.js';
import { fill } from '../../docs/placeholders.js';
import { commandsIn, shellLines } from '../../docs/shell.js';
import { runProgram, scratchDirectory, ServedChain, smallChain } from '../../support/index.js';
import { useOddExports } from '../../support/oddExports.js';

type Schema = Record<'properties', Record<string, { readonly enum?: readonly string[] }>>;
type OpenApi = { paths: Record<string, unknown>; components: { schemas: Record<string, Schema> } };

/** `/status` has sections of the same names. */
const statusFields = readFileSync(join(root, 'src/api/view/statusDocument.ts'), 'utf8');
// What was, not what is: names may have changed since.
const current = pages.filter(({ file }) => file !== 'CHANGELOG.md');

describe.each(current.map((page) => [page.file, page] as const))('%s', (file, page) => {
  it('names commands, scripts and flags that there are', async () => {
    const found = await Promise.all(shellLines(page).map(complaintsAgainst));
    expect(found.flat()).toEqual([]);
  });

  it('has shell that a shell can read', () => {
    for (const { text, language } of page.fences.filter((fence) => ['sh', 'bash'].includes(fence.language))) {
      const check = (): unknown =>
        execFileSync('bash', ['-n'], { input: text, stdio: ['pipe', 'pipe', 'pipe'] });
      expect(check, `${file}: ${language}`).not.toThrow();
    }
  });

  it('names settings and metrics that there are', () => {
    const everything = [page.prose, ...page.fences.map(({ text }) => text)].join('\n');
    const variables = new Set(Object.keys(daemonSettings).map(environmentOf));
    const metrics = pageAt('docs/metrics.md').prose;
    const sections = new Set(Object.keys(daemonSettings).map((key) => key.split('.')[0]));
    const wrong = [
      ...(everything.match(/\bFCI_[A-Z_]+[A-Z]\b/g) ?? []).filter((name) => !variables.has(name)),
      ...(everything.match(/\bflow_collection_indexer_[a-z_]+\b/g) ?? []).filter(
        (name) => !metrics.includes(`\`${name.replace(/_(bucket|sum|count)$/, '')}\``),
      ),
      ...page
        .codeSpans()
        .map(({ text }) => text)
        .filter((text) => /^[a-z]+\.[a-z]+[A-Z][A-Za-z]+$/.test(text) && sections.has(text.split('.')[0]))
        .filter((key) => !(key in daemonSettings) && !statusFields.includes(`${key.split('.')[1]}:`)),
      // What stands in brackets behind a key is its default.
      ...[...page.prose.matchAll(/`([a-z]+\.?[A-Za-z]+)` \((\d[\d,]*)(?: (s|MiB|heights))?\)/g)]
        .filter(([, key = '', value = '', unit = '']) => {
          const times = { s: 1_000, MiB: 1_048_576 }[unit] ?? 1;
          const setting = new Map<string, { default?: unknown }>(Object.entries(daemonSettings)).get(key);
          return setting && setting.default !== Number(value.replaceAll(',', '')) * times;
        })
        .map(([whole]) => whole),
    ];
    expect(wrong).toEqual([]);
  });
});

it('calls routes that are served, and names what these answer', async () => {
  const served = await ServedChain.start(smallChain(100, [[], []]), { sealed: null });
  const { components, paths } = (await served.get('/openapi.json')).body as OpenApi;
  const [status, refusal] = ['Status', 'Error'].map((name) => components.schemas[name]?.properties ?? {});
  const answered = [...Object.keys(status ?? {}), ...(refusal?.['reason']?.enum ?? ['?'])];
  const { prose } = pageAt('docs/api.md');
  expect(answered.filter((word) => !prose.includes(`\`${word}\``))).toEqual([]);
  const patterns = [...Object.keys(paths), '/metrics', '/livez', '/readyz', '/', '/docs', '/v1/ws'].map(
    (route) => new RegExp(`^${route.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
  );
  const unknown = current.flatMap((page) =>
    shellLines(page)
      .flatMap(({ text }) => [...text.matchAll(/https?:\/\/127\.0\.0\.1:718\d(\/[^\s'"?]*)/g)])
      .map(([, path = '']) => fill(path))
      .filter((path) => !patterns.some((pattern) => pattern.test(path)))
      .map((path) => `${page.file}: ${path}`),
  );
  // Shown there because they are refused.
  expect(unknown.filter((path) => !path.startsWith('docs/rest-api.md: /v1/'))).toEqual([]);
});

const odd = useOddExports();
const lines = current
  .flatMap(shellLines)
  .map(({ text }) => text)
  .filter((text) => /\bFILE\b/.test(text) && !text.startsWith('flow-collection-indexer '));
const isInstalled = (name = ''): boolean => spawnSync('which', [name]).status === 0;

it.each(lines)('of a file that export made, whatever stands in it, a page has programs %s', async (line) => {
  if (!commandsIn(line).every(([program]) => isInstalled(program))) return;
  const file = join(scratchDirectory(), 'file.ndjson');
  expect(await odd.run('--output', file, '--quiet')).toMatchObject({ exit: 'done' });
  const wrapper = ['bash', '-e', '-o', 'pipefail', '-c', line.replaceAll('FILE', file)];
  expect(await runProgram([], {}, { wrapper })).toMatchObject({ code: 0, stderr: '' });
  if (!line.includes('check-export')) return;
  writeFileSync(file, readFileSync(file, 'utf8').replace(/.*\n$/, ''));
  expect(await runProgram([], {}, { wrapper })).toMatchObject({ code: 1, stdout: '' });
});

it('has a proxy’s configuration that nginx takes', ({ skip }) => {
  if (!isInstalled('nginx')) skip();
  const { text = '' } =
    pageAt('docs/operations.md').fences.find((fence) => /^location/m.test(fence.text)) ?? {};
  const [beside = '', location = ''] = text.split(/^(?=location)/m);
  const file = join(scratchDirectory(), 'nginx.conf');
  writeFileSync(file, `events {}\nhttp {\n${beside}server {\n${location}\n}\n}\n`);
  const { stderr } = spawnSync('nginx', ['-t', '-c', file, '-e', 'stderr'], { encoding: 'utf8' });
  expect(stderr).toContain('syntax is ok');
});
