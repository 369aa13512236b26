import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { exitCodes, STOP_TIMEOUT_MS } from '../../src/app/index.js';
import { deployFolder } from '../support/deployed.js';
import { eventually, runProgram, scratchDirectory, startProgram } from '../support/program.js';
import { devnetForTest, listening } from '../support/runningDaemon.js';
import { StandInServiceManager } from '../support/serviceManager.js';

const text = readFileSync(join(deployFolder, 'systemd/flow-collection-indexer.service'), 'utf8');

/** Every value of a directive, in order. */
const valuesOf = (name: string): string[] =>
  [...text.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);

const secondsOf = (name: string): number => {
  const [, amount = '', unit = ''] = /^(\d+)(s|min)$/.exec(valuesOf(name)[0] ?? '') ?? [];
  return Number(amount) * (unit === 'min' ? 60 : 1);
};

/** The command line of the unit, its configuration and its directory being the test's. */
async function unitCommand() {
  const devnet = await devnetForTest({ seed: 7, startHead: 20, paused: true });
  const folder = scratchDirectory();
  const config = join(folder, 'config.json');
  const free = { api: { port: 0, grpcPort: 0 }, metrics: { port: 0 } };
  writeFileSync(config, JSON.stringify({ network: 'devnet', accessNodes: [devnet.address], ...free }));
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

it('starts the program as it stands there, which tells the service manager', async () => {
  const { args, environment } = await unitCommand();
  expect(valuesOf('Type')).toEqual(['notify']);
  const manager = await StandInServiceManager.start({ watchdogMs: secondsOf('WatchdogSec') * 1_000 });
  const daemon = await listening(startProgram(args, { ...environment, ...manager.environment }));
  await eventually(() => manager.told.includes('READY=1'));
  expect(manager.signsOfLife).toBeGreaterThan(0);
  expect(await daemon.program.stop()).toBe(0);
});

it('is started again after whatever a new start may fix, and nothing else', async () => {
  const { foreign, configuration, usage } = exitCodes;
  const codes = [usage, foreign, configuration].map(({ code }) => code);
  expect(valuesOf('RestartPreventExitStatus')).toEqual([codes.join(' ')]);
  expect(valuesOf('Restart')).toEqual(['on-failure']);
  const { args, environment } = await unitCommand();
  expect((await runProgram([...args, '--window', '0'], environment)).code).toBe(usage.code);
  expect((await runProgram(args, { ...environment, FCI_WINDOW: '0' })).code).toBe(configuration.code);
});

it('has time to stop, and to be noticed', () => {
  expect(secondsOf('TimeoutStopSec') * 1_000).toBeGreaterThan(STOP_TIMEOUT_MS);
  expect(secondsOf('WatchdogSec')).toBeGreaterThanOrEqual(10);
});
