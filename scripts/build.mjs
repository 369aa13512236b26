// `npm run build`: builds what the package ships, in dist/: our own files, bundled for each entry and each lazily loaded part,
// because loading takes most of the start-up time (docs/decisions/0010-starting.md). Packages are installed beside. Only the script of
// the status page contains one, with its licence. `npm run types` checks the types.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import './ensure-installed.mjs';
import { forNode, root } from './bundle.mjs';

// After the packages are installed.
const { build } = await import('esbuild');
const { describeProto } = await import('./describe-proto.mjs');
const { default: ts } = await import('typescript');
const dist = join(root, 'dist');
/** The language level of every browser of recent years. */
const BROWSERS = 'es2022';

const program = {
  ...forNode,
  outdir: 'dist',
  chunkNames: 'parts/[name]-[hash]',
  splitting: true,
  sourcemap: 'linked',
  write: false,
};
const main = await build({ ...program, entryPoints: { main: 'src/main.ts' } });
// On their own, so that each thread loads only what it uses: entries that share a build share its chunks.
// The job queue requires nothing, and other programs may bundle it as CommonJS, which has no `import.meta`.
const jobqueue = await build({ ...program, banner: {}, entryPoints: { jobqueue: 'src/jobqueue/index.ts' } });
const readers = await build({ ...program, entryPoints: { readers: 'src/app/threads/readerEntry.ts' } });
const certificates = await build({
  ...program,
  entryPoints: { certificates: 'src/proof/certificates/certificateWorker.ts' },
});
const page = await build({
  absWorkingDir: root,
  entryPoints: { page: 'src/api/page/client/main.tsx', style: 'src/api/page/client/style.css' },
  outdir: 'dist',
  bundle: true,
  format: 'esm',
  target: BROWSERS,
  minify: true,
  metafile: true,
  write: false,
});
const [script, style] = page.outputFiles;
replaceFiles([
  ...[main, jobqueue, readers, certificates].flatMap(({ outputFiles }) =>
    outputFiles.map(({ path, contents }) => [path, Buffer.from(contents)]),
  ),
  [script.path, Buffer.from(noticesOf(page.metafile) + script.text)],
  [style.path, style.contents],
  [join(dist, 'descriptors.json'), Buffer.from(JSON.stringify(describeProto()))],
  ...declarationsOfJobQueue(),
]);

/** The licences of the packages in a bundle, as comments: they must be shipped with them. */
function noticesOf({ inputs }) {
  const folders = new Set(
    Object.keys(inputs)
      .map((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0])
      .filter(Boolean),
  );
  const notices = [...folders].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
    const files = readdirSync(join(root, folder)).filter((file) =>
      /^(?:licen[cs]e|notice|copying)/i.test(file),
    );
    if (files.length === 0) throw new Error(`${folder} has no licence file`);
    const texts = files.map((file) => readFileSync(join(root, folder, file), 'utf8').trim());
    return `/*! ${[`${name} ${version}`, ...texts].join('\n\n')} */\n`;
  });
  return notices.join('');
}

/** Renames each changed file into place, so that a running program never reads a partial file. Unchanged files stay. */
function replaceFiles(files) {
  try {
    for (const [path, contents] of files) if (!holds(path, contents)) replaceFile(path, contents);
    const built = new Set(files.map(([path]) => path));
    for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile() && !built.has(path)) rmSync(path);
    }
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS'].includes(error.code)) throw error;
    console.error(
      `The build cannot be written (${error.message}): copy the checkout to where you may write.`,
    );
    process.exit(1);
  }
}

function replaceFile(path, contents) {
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, contents, { mode: path.endsWith('/main.js') ? 0o755 : 0o644 });
  renameSync(temporary, path);
}

function holds(path, contents) {
  try {
    return readFileSync(path).equals(contents);
  } catch {
    return false;
  }
}

/**
 * The type declarations of the job queue, the only part that other programs import. Each file by itself: to read the types of
 * Node.js for it takes longer than all else, and what is exported says its type.
 */
function declarationsOfJobQueue() {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  const compilerOptions = { ...options, isolatedDeclarations: true, sourceMap: false };
  const source = join(root, 'src');
  // Grows by what each imports.
  const paths = new Set([join(source, 'jobqueue/index.ts')]);
  return Array.from(paths, (fileName) => {
    const text = readFileSync(fileName, 'utf8');
    for (const imported of ts.preProcessFile(text).importedFiles)
      if (imported.fileName.startsWith('.'))
        paths.add(join(dirname(fileName), imported.fileName.replace(/\.js$/, '.ts')));
    const how = { compilerOptions, fileName, reportDiagnostics: true };
    const { diagnostics, outputText } = ts.transpileDeclaration(text, how);
    if (diagnostics.length > 0) refuseTypes(diagnostics);
    const path = relative(source, fileName).replace(/\.ts$/, '.d.ts');
    return [join(dist, 'types', path), Buffer.from(outputText)];
  });
}

function refuseTypes(faults) {
  const names = {
    getCanonicalFileName: (path) => path,
    getCurrentDirectory: () => root,
    getNewLine: () => '\n',
  };
  console.error(ts.formatDiagnostics(faults, names));
  process.exit(1);
}
