import { execFile } from 'node:child_process';
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { validate } from 'dockerfile-utils';
import { expect, it } from 'vitest';
import { programVersion } from '../../src/app/index.js';
import { DockerfileRun } from './DockerfileRun.js';
import { lastingPort } from '../support/lastingPort.js';
import { devnetForTest, startDaemon } from '../support/runningDaemon.js';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

it('is a Dockerfile that its linter finds nothing in', () => {
  expect(validate(readFileSync(join(root, 'Dockerfile'), 'utf8'))).toEqual([]);
});

it('builds an image, step by step as it stands there, whose command indexes and whose health check tells', async () => {
  const build = new DockerfileRun({ context: root });
  await build.build();

  expect(build.user).toBe('node');
  expect(build.owners).toEqual({ '/data': 'node:node' });
  expect(statSync(build.path('/data')).mode & 0o777).toBe(0o700);
  expect(build.labels['org.opencontainers.image.version']).toBe(programVersion);
  expect(build.entry).toEqual(['flow-collection-indexer', 'start']);

  // The packages that it runs with, and none that only development needs. And all that messages cite.
  const { dependencies, devDependencies } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  ) as Readonly<Record<string, object>>;
  const isThere = (name: string): boolean => existsSync(build.path(`/app/node_modules/${name}`));
  expect(Object.keys(dependencies ?? {}).filter((name) => !isThere(name))).toEqual([]);
  // Some are brought by a package that it runs with, too.
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
  };
  const developing = Object.keys(devDependencies ?? {}).filter(
    (name) => packages[`node_modules/${name}`]?.dev,
  );
  expect(developing.length).toBeGreaterThan(0);
  expect(developing.filter(isThere)).toEqual([]);
  expect(existsSync(build.path('/app/docs/configuration.md'))).toBe(true);

  // Its command, with its environment, but for ports that are free here.
  const devnet = await devnetForTest({ seed: 7, startHead: 20, paused: true });
  const local = { FCI_NETWORK: 'devnet', FCI_ACCESS_NODES: devnet.address, FCI_START_HEIGHT: 'root' };
  const ports = { FCI_API_PORT: '0', FCI_API_GRPC_PORT: '0' };
  const { environment } = build.image;
  expect(build.image.environment['FCI_DATA_DIR']).toBe('/data');
  const [name = '', ...args] = build.entry;
  const script = [build.path(`/usr/local/bin/${name}`)];
  const flags = ['--data-dir', build.path('/data'), `--metrics-port=${await lastingPort()}`];
  const daemon = await startDaemon([...args, ...flags], { ...environment, ...local, ...ports }, { script });
  await daemon.reaches(20);

  const [check = ''] = build.healthCheck;
  // Wherever it listens: a flag or a file may say so, and not the environment.
  const env = { ...process.env, FCI_METRICS_PORT: '1' };
  const words = `/proc/${daemon.program.child.pid}/cmdline`;
  const healthy = () => run(build.path(`/usr/local/bin/${check}`), [words], { env });
  await healthy();
  // As while it starts, or where the disk is full.
  rmSync(build.path('/data/daemon.json'));
  await healthy();
  expect(await daemon.program.stop()).toBe(0);
  await expect(healthy()).rejects.toMatchObject({ code: 1 });
}, 600_000);
