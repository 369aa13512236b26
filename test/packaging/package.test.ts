import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { programVersion } from '../../src/app/index.js';
import { scratchDirectory, startProgram, type Program } from '../support/program.js';
import { listening, startArguments } from '../support/runningDaemon.js';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const NAME = 'flow-collection-indexer';
/** Packages that name a newer Node.js than 20, and work there. */
const OF_NODE_20 = ['pg-boss', 'cookie'];
const QUIET = ['--no-audit', '--no-fund', '--ignore-scripts'];

/** The package as `npm publish` would send it, installed for everyone into an empty folder, without any script. */
async function installed() {
  const prefix = scratchDirectory();
  await run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', prefix], { cwd: root });
  const tarball = join(prefix, `${NAME}-${programVersion}.tgz`);
  const install = ['install', '--global', '--prefix', prefix, '--prefer-offline', ...QUIET, tarball];
  const { stderr: warnings } = await run('npm', install, { cwd: prefix });
  const home = join(prefix, 'home');
  mkdirSync(home);
  // Nothing of this repository is within reach.
  const environment = { HOME: home, PATH: `${join(prefix, 'bin')}:${process.env['PATH'] ?? ''}` };
  return { prefix, home, environment, warnings, folder: join(prefix, 'lib/node_modules', NAME) };
}

it('runs from an empty folder where its tarball was installed, with man pages and completion', async () => {
  const { environment, folder, home, prefix, warnings } = await installed();
  // Those that docs/dependencies.md names.
  const names = [...warnings.matchAll(/deprecated (\S+)@|EBADENGINE +package: '(\S+)@/g)].flatMap((match) =>
    match.slice(1).filter(Boolean),
  );
  expect(names.filter((name) => !(OF_NODE_20.includes(name) && process.version.startsWith('v20.')))).toEqual(
    [],
  );
  const program = join(prefix, 'bin', NAME);
  const inHome = { cwd: home, env: { ...environment, SHELL: '/bin/bash' } };

  expect((await run(program, ['--version'], inHome)).stdout).toBe(`${programVersion}\n`);

  const as = { wrapper: ['env', '-C', home], script: [program] };
  const start = (args: readonly string[]): Program => startProgram(args, environment, as);
  const devnet = start(['devnet', '--port', '0', '--history', '50', '--block-interval-ms', '0']);
  const [, address = ''] = await devnet.sees(/(grpc:\/\/\S+:\d+)/);
  const dataDir = join(home, 'data');
  const daemon = await listening(start([...startArguments({ address }, dataDir), '--start-height', 'root']));
  await daemon.reaches(50);
  expect((await daemon.api('/v1/blocks?height=50')).status).toBe(200);
  expect((await fetch(`${daemon.apiUrl}/`)).headers.get('content-type')).toContain('text/html');
  expect(await daemon.program.stop()).toBe(0);
  const verify = ['verify', '--network', 'devnet', '--data-dir', dataDir];
  expect((await run(program, verify, inHome)).stdout).toContain('no damage');

  for (const page of ['man1/flow-collection-indexer.1', 'man5/flow-collection-indexer-config.5'])
    expect(readFileSync(join(prefix, 'share/man', page), 'utf8')).toContain(`"${NAME} ${programVersion}"`);

  expect((await run(program, ['completion', 'install'], inHome)).stdout).toContain(home);
  const ask = `source "$HOME/.local/share/bash-completion/completions/${NAME}"
    COMP_WORDS=(${NAME} sta); COMP_CWORD=1; _flow_collection_indexer; echo "\${COMPREPLY[@]}"`;
  expect((await run('bash', ['--norc', '-c', ask], inHome)).stdout).toBe('start status\n');

  for (const name of readdirSync(join(folder, 'config')).filter((file) => file !== 'sporks.json')) {
    const check = ['config', 'check', '--config', join(folder, 'config', name)];
    expect((await run(program, check, inHome)).stdout).toBe('The configuration is valid.\n');
  }
  expect(existsSync(join(folder, 'deploy/systemd', `${NAME}.service`))).toBe(true);
  // What only development needs stays behind.
  expect(readdirSync(folder).filter((name) => ['src', 'test', 'scripts'].includes(name))).toEqual([]);
}, 400_000);
