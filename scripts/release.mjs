// `npm run release -- --dry-run`: builds everything that a release publishes into release/ (or `--out DIR`), and says what
// keeps it from being published. Without --dry-run, such obstacles stop it before it builds. It publishes nothing itself: at
// the end it prints the commands for whoever has the keys (docs/releasing.md).
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const root = join(import.meta.dirname, '..');
const EXIT_USAGE = 64;
/** More than any of the commands prints. */
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

const options = readOptions();
const read = (path) => readFileSync(join(root, path), 'utf8');
const say = (line = '') => process.stdout.write(`${line}\n`);
const { name, version, license, repository, bugs } = JSON.parse(read('package.json'));

const wrong = contradictions();
const blocking = options.dryRun ? [] : obstacles();
if (wrong.length + blocking.length > 0) {
  for (const line of [...wrong, ...blocking]) process.stderr.write(`${line}\n`);
  process.stderr.write(`${name} ${version} cannot be released: fix the problems above. Nothing was built.\n`);
  process.exit(1);
}
build();
explain(options.dryRun ? obstacles() : []);

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        'dry-run': { type: 'boolean', default: false },
        out: { type: 'string', default: 'release' },
      },
    });
    return { dryRun: values['dry-run'], out: resolve(root, values.out) };
  } catch (error) {
    process.stderr.write(`${error.message}\nusage: npm run release -- [--dry-run] [--out DIRECTORY]\n`);
    process.exit(EXIT_USAGE);
  }
}

/** Runs a program in the repository and returns what it printed. */
function run(command, ...args) {
  return execFileSync(command, args, { cwd: root, encoding: 'utf8', maxBuffer: MAX_OUTPUT_BYTES });
}

/** The newest section of the changelog: its version, its date or "unreleased", and its text. */
function newestChanges() {
  const [, section = ''] = read('CHANGELOG.md').split(/^## /m);
  const [, of = '', when = ''] = /^(\S+) \((.+)\)$/m.exec(section) ?? [];
  return { of, when, notes: section.slice(section.indexOf('\n')).trim() };
}

/** Places that contradict each other about the version. */
function contradictions() {
  const lock = JSON.parse(read('package-lock.json'));
  const kustomizations = ['leveldb', 'postgres'].map(
    (kind) => `deploy/kubernetes/${kind}/kustomization.yaml`,
  );
  const places = [
    ['package-lock.json', lock.version],
    ['package-lock.json, packages', lock.packages[''].version],
    ['CHANGELOG.md, newest heading', newestChanges().of],
    ['Dockerfile, ARG VERSION', /^ARG VERSION=(.*)$/m.exec(read('Dockerfile'))?.[1]],
    ...kustomizations.map((path) => [`${path}, newTag`, /newTag: (.*)$/m.exec(read(path))?.[1]]),
  ];
  const different = places
    .filter(([, found]) => found !== version)
    .map(
      ([place, found]) =>
        `${place} says ${found ?? 'nothing'}, package.json says ${version}: make them agree.`,
    );
  return /^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version)
    ? different
    : [...different, `${version} is not a semantic version (semver.org): change package.json.`];
}

/** What keeps the release from being published, although it can be built. */
function obstacles() {
  const { when, notes } = newestChanges();
  const found = [];
  if (!/^\d{4}-\d{2}-\d{2}$/.test(when))
    found.push(`CHANGELOG.md calls ${version} "${when}": put the day of the release, as in (2026-01-31).`);
  if (notes === '') found.push(`CHANGELOG.md says nothing about ${version}: say what changed.`);
  if (license === 'UNLICENSED')
    found.push('package.json has no licence: choose one, or nobody may use what is published.');
  if (repository === undefined)
    found.push(
      'package.json names no repository: the registry accepts a proof of where a package was built only for the one it names.',
    );
  if (bugs === undefined) found.push('package.json names no place for bug reports: set bugs.');
  const changed = run('git', 'status', '--porcelain').trim();
  if (changed !== '')
    found.push(`The working tree is not clean, so nobody could build the same: commit or remove\n${changed}`);
  const isTagged = run('git', 'tag', '--list', `v${version}`).trim() !== '';
  if (isTagged && run('git', 'rev-list', '-1', `v${version}`) !== run('git', 'rev-list', '-1', 'HEAD'))
    found.push(`The tag v${version} is on another commit: increase the version (docs/releasing.md).`);
  return found;
}

function build() {
  rmSync(options.out, { recursive: true, force: true });
  mkdirSync(options.out, { recursive: true });
  const base = `${name}-${version}`;
  const write = (file, text) => writeFileSync(join(options.out, file), text);

  say(`Building ${name} ${version} …`);
  run('npm', 'run', '--silent', 'build');
  run('npm', 'pack', '--silent', '--ignore-scripts', '--pack-destination', options.out);
  for (const [format, bill] of billsOfMaterials()) write(`${base}.${format}.json`, bill);
  const context = imageContext();
  write(`${base}-image-context.txt`, context.map((path) => `${path}\n`).join(''));
  execFileSync('tar', ['-czf', join(options.out, `${base}-image-context.tar.gz`), '--null', '-T', '-'], {
    cwd: root,
    input: context.join('\0'),
  });
  write('RELEASE_NOTES.md', releaseNotes());
  write('SHA256SUMS', checksums());
}

/**
 * The packages that ours brings, by `npm sbom` from the lockfile. npm leaves out packages that development needs as well, and takes
 * the name from the folder: so it runs in a folder of that name without devDependencies.
 */
function billsOfMaterials() {
  const folder = join(mkdtempSync(join(tmpdir(), 'release-')), name);
  mkdirSync(folder);
  const { devDependencies, ...shipped } = JSON.parse(read('package.json'));
  // The script of the status page contains it.
  shipped.dependencies.preact = devDependencies.preact;
  // They may name packages that only development uses. The lockfile already reflects them.
  delete shipped.overrides;
  writeFileSync(join(folder, 'package.json'), JSON.stringify(shipped));
  writeFileSync(join(folder, 'package-lock.json'), read('package-lock.json'));
  const npm = (...args) =>
    execFileSync('npm', args, { cwd: folder, encoding: 'utf8', maxBuffer: MAX_OUTPUT_BYTES });
  npm(
    'install',
    '--package-lock-only',
    '--ignore-scripts',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  );
  const bills = ['cyclonedx', 'spdx'].map((format) => [
    format,
    npm('sbom', '--package-lock-only', '--sbom-type=application', `--sbom-format=${format}`),
  ]);
  rmSync(dirname(folder), { recursive: true });
  return bills;
}

/** The files that Docker gets: those that .dockerignore does not list. It contains only plain names, no patterns. */
function imageContext() {
  const ignored = read('.dockerignore').split('\n').filter(Boolean);
  return run('git', 'ls-files', '--cached', '--others', '--exclude-standard', '-z')
    .split('\0')
    .filter((path) => path !== '' && existsSync(join(root, path)))
    .filter((path) => !ignored.some((entry) => path === entry || path.startsWith(`${entry}/`)))
    .filter((path) => !resolve(root, path).startsWith(options.out));
}

/** Pages are named, not linked: relative links lead nowhere from where a release is read. */
function releaseNotes() {
  const notes = newestChanges().notes.replaceAll(/\[([^\]]+)\]\((?!https?:)([^)#]+)(#[^)]*)?\)/g, '$1 ($2)');
  return `# ${name} ${version}

${notes}

Upgrading: docs/upgrading.md. What is in it: \`${name}-${version}.cyclonedx.json\` and \`.spdx.json\`. Check what you downloaded:
\`sha256sum --check SHA256SUMS\`.
`;
}

/** In the format of `sha256sum`. */
function checksums() {
  return readdirSync(options.out)
    .sort()
    .map((file) => {
      const bytes = readFileSync(join(options.out, file));
      return `${createHash('sha256').update(bytes).digest('hex')}  ${file}\n`;
    })
    .join('');
}

function explain(left) {
  const folder = relative(root, options.out) || '.';
  const made = readdirSync(options.out).map((file) => {
    const { length } = readFileSync(join(options.out, file));
    return `  ${file.padEnd(52)}${String(Math.ceil(length / 1024)).padStart(7)} KiB`;
  });
  say(`\nBuilt in ${folder}/:`);
  for (const line of made) say(line);
  if (left.length > 0) {
    say('\nBefore it can be published:');
    for (const line of left) say(`  ${line.replaceAll('\n', '\n    ')}`);
  }
  const image = `${name}:${version}`;
  const context = `${folder}/${name}-${version}-image-context.tar.gz`;
  say(`\n${options.dryRun ? 'A release would be published by' : 'Publish it'}:`);
  say(`  git tag --sign --message "${name} ${version}" v${version} && git push origin v${version}`);
  say(`  npm publish ${folder}/${name}-${version}.tgz`);
  say(
    `  docker build --tag ${image} --build-arg VERSION=${version} --build-arg REVISION=$(git rev-parse HEAD) - < ${context}`,
  );
  say(`  and the files of ${folder}/ with RELEASE_NOTES.md as the text of the release.`);
}
