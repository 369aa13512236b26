import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { readDaemonRecord } from '../../../src/app/index.js';
import { keepDaemonRecord } from '../../../src/app/lifecycle/daemonRecord.js';
import { openControlSocket } from '../../../src/app/lifecycle/openControlSocket.js';
import { openLifecycle } from '../../../src/app/lifecycle/openLifecycle.js';
import { MAX_CONTROL_CONNECTIONS } from '../../../src/app/lifecycle/watchDescriptors.js';
import { AbortError, OperatorError } from '../../../src/runtime/index.js';
import { atEnd, eventually, RecordingLogger, scratchDirectory, until } from '../../support/index.js';
import { VirtualClock } from '../../support/index.js';

async function open(dataDir: string) {
  const obeyed: unknown[] = [];
  const [clock, logger] = [new VirtualClock(), new RecordingLogger()];
  const lifecycle = openLifecycle({ clock, logger });
  const path = await openControlSocket(dataDir, {
    ...{ clock, lifecycle, logger },
    obey: async (command) => {
      obeyed.push(command);
      if (lifecycle.signal.aborted) throw new AbortError('the store is closed');
      if (obeyed.length > 1) throw new OperatorError('usage', 'Not twice.');
      return { plan: 1 };
    },
  });
  atEnd(() => lifecycle.close());
  return { control: { path, ...lifecycle }, obeyed, clock, logger };
}

function say(path: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect({ path });
    socket.on('error', reject);
    socket.on('data', (part) => (answer += part.toString()));
    socket.on('close', () => resolve(answer));
    socket.write(text);
  });
}

it('the socket for commands takes one line of JSON, and answers what came of it, or why it is refused', async () => {
  const dataDir = scratchDirectory();
  const { control, obeyed } = await open(dataDir);
  expect(control.path).toBe(join(dataDir, 'control.sock'));
  expect(statSync(control.path).isSocket()).toBe(true);
  expect(JSON.parse(await say(control.path, '{"do":"plan"}\n'))).toEqual({ done: { plan: 1 } });
  const refused = { exit: 'usage', message: 'Not twice.' };
  expect(JSON.parse(await say(control.path, '{"do":"plan"}\n'))).toEqual({ refused });
  for (const nonsense of ['no JSON\n', '\n', 'x'.repeat(5_000)]) {
    const answer = JSON.parse(await say(control.path, nonsense)) as { refused: { message: string } };
    expect(answer.refused.message).toContain('does not understand');
  }
  expect(obeyed).toEqual([{ do: 'plan' }, { do: 'plan' }]);
  control.stop();
  expect(await say(control.path, '{}\n')).toBe('');
  // The last command was no bug.
  await control.close();
  expect(existsSync(control.path)).toBe(false);
});

it('the socket for commands has room for further callers, though those before do not hang up', async () => {
  const { control } = await open(scratchDirectory());
  for (let count = 0; count < MAX_CONTROL_CONNECTIONS; count += 1) {
    const socket = connect({ path: control.path, allowHalfOpen: true });
    atEnd(() => void socket.destroy());
    socket.on('error', () => undefined).write('{}\n');
    await once(socket.resume(), 'end');
  }
  expect(await say(control.path, '{}\n')).toContain('Not twice.');
});

it('the socket for commands takes the place of one that a killed daemon left, and is elsewhere where the directory cannot hold it', async () => {
  const dataDir = scratchDirectory();
  await open(dataDir);
  const { control } = await open(dataDir);
  expect(await say(control.path, '{}\n')).toContain('done');
  const withoutSockets = scratchDirectory();
  mkdirSync(join(withoutSockets, 'control.sock'));
  for (const each of [join(dataDir, 'x'.repeat(120)), withoutSockets]) {
    const { control: far } = await open(each);
    expect(Buffer.byteLength(far.path)).toBeLessThan(104);
    expect(await say(far.path, '{}\n')).toContain('done');
  }
});

it.each(['in the data directory', 'elsewhere'])('it comes back %s once it was removed', async (where) => {
  const { control, clock } = await open(
    join(scratchDirectory(), where === 'elsewhere' ? 'x'.repeat(120) : ''),
  );
  for (const gone of [control.path, ...(where === 'elsewhere' ? [dirname(control.path)] : [])]) {
    rmSync(gone, { recursive: true });
    await clock.advance(10_000);
    await eventually(() => (existsSync(control.path) ? true : undefined));
  }
  expect(await say(control.path, '{}\n')).toContain('done');
});

it('the socket for commands is told of once, for as long as it has no place', async () => {
  const dataDir = join(scratchDirectory(), 'data');
  mkdirSync(dataDir);
  const { control, clock, logger } = await open(dataDir);
  const warned = () => logger.records.filter(({ level }) => level === 'warn').length;
  const look = async () => {
    await until(() => clock.pendingTimers > 0);
    await clock.advance(10_000);
  };
  for (const times of [1, 2]) {
    rmSync(dataDir, { recursive: true });
    await look();
    await until(() => warned() === times);
    await look();
    await until(() => clock.pendingTimers > 0);
    mkdirSync(dataDir);
    await look();
    await until(() => existsSync(control.path));
    expect(warned()).toBe(times);
  }
});

it('what commands find a daemon by comes back where somebody removed it, and goes with the daemon', async () => {
  const dataDir = scratchDirectory();
  const [clock, logger] = [new VirtualClock(), new RecordingLogger()];
  const lifecycle = openLifecycle({ clock, logger });
  const described = { pid: process.pid, instance: 'a', metrics: { host: '127.0.0.1', port: 1 } };
  keepDaemonRecord(dataDir, () => described, { clock, lifecycle, logger });
  rmSync(join(dataDir, 'daemon.json'));
  await clock.advance(10_000);
  expect(await eventually(() => readDaemonRecord(dataDir))).toEqual(described);
  await lifecycle.close();
  expect([readdirSync(dataDir), clock.pendingTimers]).toEqual([[], 0]);
});
