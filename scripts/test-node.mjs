// `npm run test:node -- 24`: runs `npm test` under another Node.js: a full version or its first parts. Further arguments go to
// vitest: `npm run test:node -- 24 --project unit`. The binary comes from npm's `node` package and is kept in node_modules/.cache.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [version = '', ...vitestArguments] = process.argv.slice(2);
if (!/^\d+(\.\d+){0,2}$/.test(version)) {
  console.error('Name a Node.js version: npm run test:node -- 24');
  process.exit(64);
}

/** The package with the binary itself: npm's `node` package picks it in an install script, which may be disabled. */
const system = process.platform === 'win32' ? 'win' : process.platform;
const name = `${system === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node'}-${system}-${process.arch}`;
const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const cache = join(root, 'node_modules', '.cache', `node-${version}`);
const bin = join(cache, 'node_modules', name, 'bin');
const node = join(bin, system === 'win' ? 'node.exe' : 'node');

function run(command, args, env = process.env) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit', env });
  if (error !== undefined) console.error(error.message);
  if (status !== 0) process.exit(status ?? 1);
}

await import('./ensure-installed.mjs');
mkdirSync(cache, { recursive: true });
const npm = process.env.npm_execpath ?? '';
const quiet = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline'];
run(process.execPath, [npm, 'install', '--prefix', cache, ...quiet, `${name}@${version}`]);
run(node, ['-p', '`Node.js ${process.version}`']);
// First on the path, so that tests that start `node` by name get this one too.
const env = { ...process.env, PATH: bin + delimiter + process.env.PATH };
run(node, [npm, 'test', '--', ...vitestArguments], env);
