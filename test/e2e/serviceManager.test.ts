import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import { expect, it } from 'vitest';
import { exitCodes, STOP_TIMEOUT_MS } from '../../src/app/index.js';
import type { DevnetOptions } from '../../src/devnet/index.js';
import { atEnd, devnetForTest, eventually, listening, runDaemonHere } from '../support/daemons.js';
import { runProgram, scratchDirectory, startArguments, startDaemon } from '../support/daemons.js';
import { startProgram } from '../support/daemons.js';
import { deployFolder } from '../support/deployed.js';
import { StandInServiceManager } from '../support/serviceManager.js';

const chain = { seed: 7, startHead: 20, paused: true } satisfies DevnetOptions;

const unit = readFileSync(join(deployFolder, 'systemd/flow-collection-indexer.service'), 'utf8');

const valuesOf = (name: string): string[] =>
  [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);

const secondsOf = (name: string): number => {
  const [, amount = '', measure = ''] = /^(\d+)(s|min)$/.exec(valuesOf(name)[0] ?? '') ?? [];
  return Number(amount) * (measure === 'min' ? 60 : 1);
};

/** The command line of the unit, its configuration and its directory being the test's. */
async function unitCommand() {
  const devnet = await devnetForTest(chain);
  const folder = scratchDirectory();
  const config = join(folder, 'config.json');
  const free = { api: { port: 0, grpcPort: 0 }, metrics: { port: 0 } };
  const chosen = { network: 'devnet', accessNodes: [devnet.address], startHeight: 'root' };
  writeFileSync(config, JSON.stringify({ ...chosen, ...free }));
  const [program, ...words] = (valuesOf('ExecStart')[0] ?? '').split(' ');
  expect(program).toBe('flow-collection-indexer');
  const path = '/etc/flow-collection-indexer/config.json';
  expect(words).toContain(path);
  const environment = Object.fromEntries(
    valuesOf('Environment').flatMap((line) =>
      line.split(' ').map((word) => word.replace('%S', folder).split('=') as [string, string]),
    ),
  );
  return { args: words.map((word) => (word === path ? config : word)), environment };
}

it('tells a service manager that it is ready, alive, and that it stops, as the unit starts it', async () => {
  const { args, environment } = await unitCommand();
  expect(valuesOf('Type')).toEqual(['notify']);
  expect(secondsOf('WatchdogSec')).toBeGreaterThanOrEqual(10);
  expect(secondsOf('TimeoutStopSec') * 1_000).toBeGreaterThan(STOP_TIMEOUT_MS);
  const manager = await StandInServiceManager.start({ watchdogMs: 4_000 });
  const daemon = await startDaemon(args, { ...environment, ...manager.environment });
  manager.watch(daemon.program);

  await eventually(() => manager.told.includes('READY=1'));
  const seen = manager.signsOfLife;
  await eventually(() => manager.signsOfLife > seen);

  expect(await daemon.program.stop()).toBe(0);
  await eventually(() => manager.told.includes('STOPPING=1'));
  expect(manager.told).toEqual(['READY=1', 'STOPPING=1']);
});

it('is started again by systemd after whatever a new start may fix, and nothing else', () => {
  const { foreign, configuration, usage } = exitCodes;
  const codes = [usage, foreign, configuration].map(({ code }) => code);
  expect(valuesOf('RestartPreventExitStatus')).toEqual([codes.join(' ')]);
  expect(valuesOf('Restart')).toEqual(['on-failure']);
});

it('is ready before any node answers, and is ended once its event loop hangs', async () => {
  const manager = await StandInServiceManager.start({ watchdogMs: 4_000 });
  const args = startArguments({ address: 'grpc://127.0.0.1:1' }, scratchDirectory());
  const inspected = { ...manager.environment, NODE_OPTIONS: '--inspect=127.0.0.1:0' };
  const program = startProgram(args, inspected);
  const [, url = ''] = await program.sees(/Debugger listening on (ws:\S+)/);
  const { metricsUrl } = await listening(program);
  manager.watch(program);
  await eventually(() => manager.told.includes('READY=1'));
  await eventually(() => manager.signsOfLife > 1);

  await evaluate(url, 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)');
  expect(await program.exited).toBe('SIGABRT');
  await expect(fetch(`${metricsUrl}/livez`)).rejects.toThrow('fetch failed');
});

it('has never been ready where it cannot start, and counts as ready where nothing is left to do', async () => {
  const manager = await StandInServiceManager.start({ watchdogMs: 10_000 });
  const devnet = await devnetForTest(chain);
  const seeded = startArguments(devnet, scratchDirectory(), '--from-snapshot', 'http://127.0.0.1:2/a.tar');
  expect((await runProgram(seeded, manager.environment)).code).toBe(74);
  await eventually(() => manager.signsOfLife > 0);
  expect(manager.told).not.toContain('READY=1');
  const args = startArguments(devnet, scratchDirectory(), '--start-height', 'root', '--stop-height', '20');
  expect((await runDaemonHere(args)).code).toBe(0);
  const other = await StandInServiceManager.start({ watchdogMs: 10_000 });
  expect((await runProgram(args, other.environment)).code).toBe(0);
  await eventually(() => other.told.includes('STOPPING=1'));
  expect(other.told).toEqual(['READY=1', 'STOPPING=1']);
});

it('runs, and says so once, where it cannot tell the service manager', async () => {
  const devnet = await devnetForTest(chain);
  const nobody = join(scratchDirectory(), 'nobody');
  const noProgram = `import { ChildProcess } from 'node:child_process';
    ChildProcess.prototype.spawn = () => { throw Object.assign(new Error('spawn EPERM'), { code: 'EPERM' }); };`;
  // With the tool and nobody who listens; without the tool; and in a sandbox.
  const surroundings: Record<string, string>[] = [
    ...[{}, { PATH: scratchDirectory() }],
    { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(noProgram)}` },
  ];
  await Promise.all(
    surroundings.map(async (set) => {
      const environment = { NOTIFY_SOCKET: nobody, WATCHDOG_USEC: '200000', ...set };
      const daemon = await startDaemon(startArguments(devnet, scratchDirectory()), environment);
      const warnings = () =>
        daemon.program
          .logs()
          .filter(({ msg }) => msg === 'the service manager cannot be told how the daemon is');
      await eventually(() => warnings().length > 0);
      expect(String(warnings()[0]?.['error'])).toMatch(
        /systemd-notify.*not found|Failed to notify|spawn EPERM/,
      );
      expect(await daemon.program.stop()).toBe(0);
      expect(warnings()).toHaveLength(1);
    }),
  );
});

/** Has the main thread of a process evaluate an expression that need not come to an end. */
async function evaluate(url: string, expression: string): Promise<void> {
  const socket = new WebSocket(url);
  await new Promise((resolve) => socket.once('open', resolve));
  const sent = { id: 1, method: 'Runtime.evaluate', params: { expression } };
  await new Promise<void>((resolve) => socket.send(JSON.stringify(sent), () => resolve()));
  // A debugger that stays would keep the process from ending.
  atEnd(() => socket.terminate());
}

it.skipIf(process.platform !== 'linux')('leaves nothing behind where messages are stuck', async () => {
  const folder = scratchDirectory();
  writeFileSync(join(folder, 'systemd-notify'), '#!/bin/sh\nexec sleep 20\n', { mode: 0o755 });
  const often = { NOTIFY_SOCKET: '/nowhere', WATCHDOG_USEC: '40000' };
  const path = { PATH: `${folder}:${process.env['PATH'] ?? ''}` };
  const args = startArguments(await devnetForTest(chain), scratchDirectory());
  const { program } = await startDaemon(args, { ...often, ...path });
  const pid = String(program.child.pid);
  const helper = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  expect(existsSync(`/proc/${helper}`)).toBe(true);
  expect(await program.stop()).toBe(0);
  await eventually(() => !existsSync(`/proc/${helper}`));
});
