// `npm run build`: what the package ships, in dist/. One file per entry and per part that is loaded late, with the packages it
// needs in it: loading is nearly all of a start (docs/decisions/0010-starting.md). Types are checked by `npm run types`.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { forNode, root } from './bundle.mjs';

const dist = join(root, 'dist');
/** What every browser of the last years runs. */
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

/** The packages that are part of the files. */
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

/** What must go with them wherever they go. */
function licencesOf(packages) {
  const texts = packages.map(
    ({ name, version, license, notices }) =>
      `${[`${name} ${version} (${license})`, ...notices].join('\n\n')}\n`,
  );
  return Buffer.from(texts.join(`\n${'-'.repeat(80)}\n\n`));
}

/** Programs that run meanwhile find every file whole, and their own for as long as nothing has changed. */
function replaceFiles(files) {
  for (const [path, contents] of files) {
    if (holds(path, contents)) continue;
    mkdirSync(dirname(path), { recursive: true });
    const aside = `${path}.${process.pid}`;
    writeFileSync(aside, contents, { mode: path.endsWith('/main.js') ? 0o755 : 0o644 });
    renameSync(aside, path);
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

/** The one part of the package that other programs import. */
function declareJobQueue() {
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) process.exit(status ?? 1);
}
