// Installs the locked dependencies when they are missing or older than the lockfile, so that every
// documented command works on a fresh clone. It uses only Node.js, because it runs before any package exists.
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

const modules = join(root, 'node_modules');
/** npm writes this file at the end of every complete install: its time tells whether the install is current. */
const marker = join(modules, '.package-lock.json');
const lockfile = join(root, 'package-lock.json');

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(
    `Node.js ${process.versions.node} is too old: install Node.js 20.19 or newer and run this again.`,
  );
  process.exit(1);
}

/** A link to another checkout's packages, which `npm ci` would delete. */
const isLinked = lstatSync(modules, { throwIfNoEntry: false })?.isSymbolicLink() === true;

if (!isLinked && (!existsSync(marker) || statSync(marker).mtimeMs < statSync(lockfile).mtimeMs)) {
  console.error('Installing dependencies (npm ci) …');
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const result = spawnSync(npm, ['ci', '--no-audit', '--no-fund'], { cwd: root, stdio: ['ignore', 2, 2] });
  if (result.status !== 0) {
    console.error('npm ci failed: see its output above.');
    process.exit(result.status ?? 1);
  }
}
