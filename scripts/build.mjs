// `npm run build`: builds what the package ships, in dist/. Each entry and each lazily loaded part is one file with its packages
// bundled, because loading takes most of the start-up time (docs/decisions/0010-starting.md). `npm run types` checks the types.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { forNode, root } from './bundle.mjs';

const dist = join(root, 'dist');
/** The language level of every browser of recent years. */
const BROWSERS = 'es2022';

const program = await build({
  ...forNode,
  entryPoints: {
    main: 'src/main.ts',
    readers: 'src/app/threads/readerEntry.ts',
    jobqueue: 'src/jobqueue/index.ts',
  },
  outdir: 'dist',
  chunkNames: 'parts/[name]-[hash]',
  splitting: true,
  sourcemap: 'linked',
  metafile: true,
  write: false,
});
const page = await build({
  absWorkingDir: root,
  entryPoints: { page: 'src/api/page/client/main.tsx' },
  outdir: 'dist',
  bundle: true,
  format: 'esm',
  target: BROWSERS,
  minify: true,
  metafile: true,
  write: false,
});
const packages = packagesOf([program.metafile, page.metafile]);
replaceFiles([
  ...[...program.outputFiles, ...page.outputFiles].map(({ path, contents }) => [path, Buffer.from(contents)]),
  [join(dist, 'packages.json'), listOf(packages)],
  [join(dist, 'LICENCES.txt'), licencesOf(packages)],
]);
declareJobQueue();

/** The packages that are bundled. */
function packagesOf(metafiles) {
  const folders = new Set(
    metafiles
      .flatMap(({ inputs }) => Object.keys(inputs))
      .map((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0])
      .filter(Boolean),
  );
  return [...folders].sort().map((folder) => ({
    ...JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')),
    notices: readdirSync(join(root, folder))
      .filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file))
      .map((file) => readFileSync(join(root, folder, file), 'utf8').trim()),
  }));
}

/** For bills of materials. */
function listOf(packages) {
  const list = packages.map(({ name, version, license }) => ({ name, version, license }));
  return Buffer.from(`${JSON.stringify(list, null, 2)}\n`);
}

/** Licences and notices, which must be shipped with the packages. */
function licencesOf(packages) {
  const texts = packages.map(
    ({ name, version, license, notices }) =>
      `${[`${name} ${version} (${license})`, ...notices].join('\n\n')}\n`,
  );
  return Buffer.from(texts.join(`\n${'-'.repeat(80)}\n\n`));
}

/** Renames each changed file into place, so that a running program never reads a partial file. Unchanged files stay. */
function replaceFiles(files) {
  for (const [path, contents] of files) {
    if (holds(path, contents)) continue;
    mkdirSync(dirname(path), { recursive: true });
    const temporary = `${path}.${process.pid}`;
    writeFileSync(temporary, contents, { mode: path.endsWith('/main.js') ? 0o755 : 0o644 });
    renameSync(temporary, path);
  }
  const built = new Set(files.map(([path]) => relative(dist, path)));
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    const path = relative(dist, join(entry.parentPath, entry.name));
    if (entry.isFile() && !built.has(path) && !path.startsWith('types/')) rmSync(join(dist, path));
  }
}

function holds(path, contents) {
  try {
    return readFileSync(path).equals(contents);
  } catch {
    return false;
  }
}

/** Writes the type declarations of the job queue, the only part that other programs import. */
function declareJobQueue() {
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) process.exit(status ?? 1);
}
