import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { scratchDirectory } from '../support/index.js';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

it('offers the job queue as an entry point of its own, by the package’s name, and lets nobody in by the window', async () => {
  const script = `
    import { JobConsumer, MemoryProgress } from 'flow-collection-indexer/jobqueue';
    const seen = [];
    const consumer = new JobConsumer(
      { maxProcessing: 2, maxSearchAhead: 0 },
      {
        jobs: { head: () => 5, atIndex: (index) => (index <= 5 ? { id: String(index) } : undefined) },
        worker: { run: (job, done) => { seen.push(job.id); done(); } },
        progress: new MemoryProgress(),
      },
    );
    await consumer.start();
    await consumer.stop();
    const { createRequire } = await import('node:module');
    const required = createRequire(process.cwd() + '/a.cjs')('flow-collection-indexer/jobqueue');
    const isSame = required.JobConsumer === JobConsumer;
    const refused = await import('flow-collection-indexer/storage').catch(({ code }) => code);
    console.log(JSON.stringify({ seen, processed: consumer.processedIndex, refused, isSame }));
  `;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: root });
  expect(JSON.parse(stdout)).toEqual({
    seen: ['1', '2', '3', '4', '5'],
    processed: 5,
    refused: 'ERR_PACKAGE_PATH_NOT_EXPORTED',
    isSame: true,
  });
  const asCommonJs = ['--bundle', '--format=cjs', '--platform=node', 'dist/jobqueue.js'];
  const bundled = await run(join(root, 'node_modules/.bin/esbuild'), asCommonJs, { cwd: root });
  await expect(run(process.execPath, ['--eval', bundled.stdout])).resolves.toMatchObject({ stderr: '' });
});

it.each([
  ['node20', `import { JobConsumer } from 'flow-collection-indexer/jobqueue'; JobConsumer.name;`],
  [
    'node16',
    `import('flow-collection-indexer/jobqueue').then(({ JobConsumer }) => JobConsumer.name);
     export type { paths } from 'flow-collection-indexer/api-types' with { 'resolution-mode': 'import' };`,
  ],
])('has types for CommonJS projects as its docs say, with module %s', async (module, text) => {
  const project = scratchDirectory();
  mkdirSync(join(project, 'node_modules'));
  symlinkSync(root, join(project, 'node_modules/flow-collection-indexer'));
  writeFileSync(join(project, 'a.ts'), text);
  writeFileSync(join(project, 'package.json'), '{ "type": "commonjs" }');
  const flags = ['--noEmit', '--strict', '--skipLibCheck', '--module', module, 'a.ts'];
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  expect(await run(process.execPath, [compiler, ...flags], { cwd: project })).toMatchObject({ stdout: '' });
});

function sources(folder = join(root, 'src')): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? sources(path) : [readFileSync(path, 'utf8')];
  });
}

it('packs what its messages cite, maps that need no sources, and nothing of the build, and has no line ends of Windows', async () => {
  const ends = await run('git', ['check-attr', 'eol', 'scripts/healthcheck.sh'], { cwd: root });
  expect(ends.stdout).toContain(': eol: lf');
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root });
  const [pack] = JSON.parse(stdout) as [{ files: { path: string }[] }];
  const files = new Set(pack.files.map(({ path }) => path));
  const cited = new Set(sources().flatMap((text) => text.match(/\bdocs\/[a-z-]+\.md\b/g) ?? []));
  expect(cited.size).toBeGreaterThan(3);
  const made = ['main.js', 'readers.js', 'certificates.js', 'page.js', 'style.css', 'descriptors.json'];
  const others = ['proto/README.md', 'CONTRIBUTING.md', 'dist/types/jobqueue/index.d.ts'];
  for (const path of [...cited, ...others, ...made.map((name) => `dist/${name}`)])
    expect(files).toContain(path);
  const map = JSON.parse(readFileSync(join(root, 'dist/main.js.map'), 'utf8')) as {
    sourcesContent: string[];
  };
  expect(map.sourcesContent[0]).toContain('runCommandLine');
});

const dist = join(root, 'dist');
const built = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));
const { dependencies, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
};

/** The packages that a built file loads with it, and on demand where `lazily`. Those of Node.js itself do not count. */
function packagesOf(file: string, lazily = false, seen = new Set<string>()): string[] {
  if (seen.has(file)) return [];
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  const imported = text.matchAll(
    lazily ? /\b(?:from|import\(?) ?"([\w@./-]+)"/g : /\b(?:from|import) "([\w@./-]+)"/g,
  );
  const required = text.matchAll(lazily ? /[rR]equire\w*\("([\w@./-]+)"\)/g : /__require\("([\w@./-]+)"\)/g);
  const named = [...imported, ...required].map(([, name = '']) => name);
  const found = named.flatMap((name) =>
    name.startsWith('.') ? packagesOf(join(dirname(file), name), lazily, seen) : [name],
  );
  const packages = found
    .filter((name) => !isBuiltin(name))
    .map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name);
  return [...new Set(packages)].sort();
}

it('has an image of its own version, contains our own files only, and with its licence what the script of the page contains, and depends on what it loads', () => {
  expect(readFileSync(join(root, 'Dockerfile'), 'utf8')).toContain(`ARG VERSION=${version}\n`);
  expect(built.length).toBeGreaterThan(10);
  for (const name of built.filter((file) => file !== 'page.js')) {
    const map = JSON.parse(readFileSync(join(dist, `${name}.map`), 'utf8')) as { readonly sources: string[] };
    expect(map.sources.filter((source) => source.includes('node_modules'))).toEqual([]);
    // Some versions of Node.js load a lot more for an import of it.
    expect(readFileSync(join(dist, name), 'utf8')).not.toMatch(/\bfrom ?"node:http"/);
  }
  const page = readFileSync(join(dist, 'page.js'), 'utf8');
  expect(page).toContain(readFileSync(join(root, 'node_modules/preact/LICENSE'), 'utf8').trim());
  const loaded = ['main.js', 'readers.js', 'certificates.js', 'jobqueue.js'].flatMap((name) =>
    packagesOf(join(dist, name), true),
  );
  expect([...new Set(loaded)].sort()).toEqual(Object.keys(dependencies).sort());
});

it('loads only for those who use it what few use, and nothing for its version', () => {
  const ofDaemon = [partOf('start'), join(dist, 'readers.js')].flatMap((file) => packagesOf(file));
  expect(ofDaemon).toContain('@grpc/grpc-js');
  // Certificates are verified in a thread of their own, once there are any.
  const forms = ['@grpc/proto-loader', 'hyparquet-writer', 'pino-pretty', 'tar'];
  for (const name of ['@noble/curves', '@noble/hashes', 'pg', 'pg-boss', 'pgpass', ...forms]) {
    expect(Object.keys(dependencies)).toContain(name);
    expect(ofDaemon).not.toContain(name);
  }
  expect(packagesOf(join(dist, 'main.js'))).toEqual([]);
  expect(packagesOf(join(dist, 'jobqueue.js'))).toEqual([]);
});

function partOf(name: string): string {
  return join(dist, built.find((file) => file.startsWith(join('parts', `${name}-`))) ?? name);
}

it.each([
  { command: 'backfill, workers', part: 'backfill', packages: ['convict'] },
  { command: 'check-proof', part: 'checkProof', packages: [] },
  { command: 'completion', part: 'completion', packages: ['commander', 'convict'] },
  { command: 'config', part: 'config', packages: ['convict'] },
  { command: 'doctor, before it looks', part: 'doctor', packages: ['convict'] },
  { command: 'export', part: 'exportBlocks', packages: ['commander', 'convict'] },
  { command: 'get, explain', part: 'lookups', packages: ['convict'] },
  { command: 'prove', part: 'prove', packages: ['convict'] },
  { command: 'status', part: 'status', packages: ['convict'] },
  { command: 'repair, rewind, forget', part: 'upkeep', packages: ['convict', 'level'] },
  { command: 'verify', part: 'verify', packages: ['convict', 'level'] },
  { command: 'backup, restore, migrate', part: 'copies', packages: ['convict', 'level'] },
])('loads no server, no client and no store that $command does without', ({ part, packages }) => {
  expect(packagesOf(partOf(part))).toEqual(packages);
});
