// `npm run release -- --dry-run`: builds everything that a release publishes into release/ (or `--out DIR`), and says what
// keeps it from being published. Without --dry-run the same, but whatever keeps it is refused first. It publishes nothing by
// itself: its last words are the commands, for whoever has the keys (docs/releasing.md).
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
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const EXIT_USAGE = 64;
/** More than any of the programs prints. */
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

const options = readOptions();
const read = (path) => readFileSync(join(root, path), 'utf8');
const say = (line = '') => process.stdout.write(`${line}\n`);
const { name, version, license } = JSON.parse(read('package.json'));

const wrong = contradictions();
const early = options.dryRun ? [] : hindrances();
if (wrong.length + early.length > 0) {
  for (const line of [...wrong, ...early]) process.stderr.write(`${line}\n`);
  process.stderr.write(
    `${name} ${version} cannot be released: mend what is named above. Nothing was built.\n`,
  );
  process.exit(1);
}
build();
explain(options.dryRun ? hindrances() : []);

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
    : [...different, `${version} is not a version as semver.org has them: change package.json.`];
}

/** What keeps it from being published, although it can be built. */
function hindrances() {
  const { when, notes } = newestChanges();
  const found = [];
  if (!/^\d{4}-\d{2}-\d{2}$/.test(when))
    found.push(`CHANGELOG.md calls ${version} "${when}": put the day of the release, as in (2026-01-31).`);
  if (notes === '') found.push(`CHANGELOG.md says nothing of ${version}: say what changed.`);
  if (license === 'UNLICENSED')
    found.push('package.json has no licence: choose one, or nobody may use what is published.');
  const changed = run('git', 'status', '--porcelain').trim();
  if (changed !== '')
    found.push(`The working tree is not clean, so nobody could build the same: commit or remove\n${changed}`);
  if (run('git', 'tag', '--list', `v${version}`).trim() !== '')
    found.push(`The tag v${version} is there already: count the version up (docs/releasing.md).`);
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
 * What the package brings, by the lockfile: not what happens to be installed here. npm leaves out of such a list whatever
 * development needs too, and names the whole after its folder: so it is asked in a folder of that name without any of it.
 */
function billsOfMaterials() {
  const folder = join(mkdtempSync(join(tmpdir(), 'release-')), name);
  mkdirSync(folder);
  const { devDependencies, ...shipped } = JSON.parse(read('package.json'));
  // What the build has made part of the program.
  for (const { name: part } of JSON.parse(read('dist/packages.json')))
    if (Object.hasOwn(devDependencies, part)) shipped.dependencies[part] = devDependencies[part];
  // They may name what development alone has; the lockfile has what came of them.
  delete shipped.overrides;
  writeFileSync(join(folder, 'package.json'), JSON.stringify(shipped));
  writeFileSync(join(folder, 'package-lock.json'), read('package-lock.json'));
  const npm = (...args) =>
    execFileSync('npm', args, { cwd: folder, encoding: 'utf8', maxBuffer: MAX_OUTPUT_BYTES });
  npm('install', '--package-lock-only', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund');
  const bills = ['cyclonedx', 'spdx'].map((format) => [
    format,
    npm('sbom', '--package-lock-only', '--sbom-type=application', `--sbom-format=${format}`),
  ]);
  rmSync(dirname(folder), { recursive: true });
  return bills;
}

/** What Docker is given: the files of the repository that .dockerignore leaves, which has plain names alone. */
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

/** As \`sha256sum\` prints them. */
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
