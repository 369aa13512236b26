// Installs the locked packages when one of them is missing or another version, so that every documented command works on a fresh
// clone, after an install for production, and under any setting of npm. It uses only Node.js, because it runs before any package exists.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync, lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const modules = join(root, 'node_modules');

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  refuse(
    `Node.js ${process.versions.node} is too old: install Node.js 24, or at least 20.19, and run this again.`,
  );
}

/** A link to another checkout's packages, which `npm ci` would delete. */
const isLinked = lstatSync(modules, { throwIfNoEntry: false })?.isSymbolicLink() === true;
if (!isLinked && missingPackage() !== undefined) {
  await install();
  const missing = missingPackage();
  if (missing !== undefined)
    refuse(
      `npm ci has left out ${missing}: look for the setting that does that (npm config list), and run this again.`,
    );
}

/** Compares what npm has recorded of its last install with the lockfile. Optional packages may be for other platforms. */
function missingPackage() {
  const installed = packagesOf(join(modules, '.package-lock.json'));
  const [missing] =
    Object.entries(packagesOf(join(root, 'package-lock.json'))).find(
      ([path, { version, optional }]) =>
        path !== '' &&
        optional !== true &&
        (installed[path]?.version !== version || !existsSync(join(root, path, 'package.json'))),
    ) ?? [];
  return missing;
}

function packagesOf(lockfile) {
  try {
    return JSON.parse(readFileSync(lockfile, 'utf8')).packages;
  } catch {
    return {};
  }
}

async function install() {
  try {
    accessSync(root, constants.W_OK);
  } catch ({ code }) {
    refuse(
      `Packages are missing, and ${root} cannot be written (${code}): run npm ci there as its owner, or copy it to where you may write.`,
    );
  }
  console.error('Installing dependencies (npm ci) …');
  // Building needs all kinds of packages, whatever NODE_ENV, npm's configuration and the flags of an npm around this leave out.
  const kinds = ['dev', 'optional', 'peer'].map((kind) => `--include=${kind}`);
  const off = ['global', 'dry-run', 'package-lock-only', 'engine-strict', 'legacy-peer-deps'].map(
    (setting) => `--${setting}=false`,
  );
  const args = [
    'ci',
    ...kinds,
    ...off,
    '--install-strategy=hoisted',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
  ];
  const own = process.env.npm_execpath ?? '';
  const [command, before] = own.endsWith('npm-cli.js') ? [process.execPath, [own]] : ['npm', []];
  const npm = spawn(command, [...before, ...args], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    // npm is a script there.
    shell: command === 'npm' && process.platform === 'win32',
  });
  // After a signal, npm finishes what it downloads, for a minute or more: a second install meanwhile would fail. What a killed one
  // leaves behind is no complete install, and the next begins by removing it.
  const stop = (name, number) => {
    npm.kill('SIGKILL');
    process.exit(128 + number);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP'];
  for (const signal of signals) process.on(signal, stop);
  const [status] = await once(npm, 'exit').catch((error) =>
    refuse(`npm could not be started: ${error.message}. Install it, and run this again.`),
  );
  for (const signal of signals) process.off(signal, stop);
  if (status !== 0) refuse('npm ci failed: see its output above.', status ?? 1);
}

function refuse(message, status = 1) {
  console.error(message);
  process.exit(status);
}
