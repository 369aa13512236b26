import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect, it, vi } from 'vitest';
import { openServiceNotifier } from '../../../src/app/lifecycle/openServiceNotifier.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

const { spawn } = vi.hoisted(() => ({ spawn: vi.fn() }));
vi.mock('node:child_process', () => ({ spawn }));

it('the messages to a service manager give two signs of life in the time of the watchdog, if there is one, from the start to the end', async () => {
  const [stdin, stderr] = [new PassThrough(), new PassThrough()];
  const ends = { unref: () => 0, kill: () => 0 };
  const helper = Object.assign(new EventEmitter().setMaxListeners(0), { stdin, stderr, ...ends });
  const told = () => String(stdin.read() ?? '').split(/(?<=\n)/);
  spawn.mockReturnValue(helper);
  const clock = new VirtualClock();
  const open = (environment: NodeJS.ProcessEnv, { signal } = new AbortController()) =>
    openServiceNotifier(environment, { clock, logger: new RecordingLogger(), signal });
  expect([open({}), open({ NOTIFY_SOCKET: '' }), spawn.mock.calls]).toEqual([undefined, undefined, []]);
  const manager = { NOTIFY_SOCKET: '/run/systemd/notify', WATCHDOG_USEC: '60000000' };
  for (const odd of ['', '0', '-5', 'soon', '1e999']) open({ ...manager, WATCHDOG_USEC: odd });
  open({ ...manager, WATCHDOG_PID: String(process.pid + 1) });
  expect([told(), clock.pendingTimers]).toEqual([[''], 0]);
  const stop = new AbortController();
  const notifier = open({ ...manager, WATCHDOG_PID: String(process.pid) }, stop);
  await clock.advance(59_999);
  expect(told()).toEqual(['WATCHDOG=1\n', 'WATCHDOG=1\n']);
  stop.abort();
  await clock.advance(30_000);
  expect(told()).toEqual(['STOPPING=1\n', 'WATCHDOG=1\n']);
  stdin.once('finish', () => helper.emit('close'));
  await notifier?.close();
  expect([stdin.writableFinished, clock.pendingTimers]).toEqual([true, 0]);
});
