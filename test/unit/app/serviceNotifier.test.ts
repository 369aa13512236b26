import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { openServiceNotifier } from '../../../src/app/lifecycle/openServiceNotifier.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

const manager = { NOTIFY_SOCKET: '/run/systemd/notify', WATCHDOG_USEC: '60000000' };

/** `told`: the messages since the last look. */
function scene() {
  const [stdin, stderr] = [new PassThrough(), new PassThrough()];
  const helper = Object.assign(new EventEmitter(), { stdin, stderr, unref: () => 0, kill: () => 0 });
  stdin.once('finish', () => helper.emit('close'));
  const told = () => String(stdin.read() ?? '').split(/(?<=\n)/);
  const [clock, stop] = [new VirtualClock(), new AbortController()];
  const parts = { clock, logger: new RecordingLogger(), signal: stop.signal };
  const open = (environment: NodeJS.ProcessEnv) =>
    openServiceNotifier(environment, { ...parts, startHelper: () => helper as never });
  return { clock, open, stdin, stop, told };
}

it('the messages to a service manager give two signs of life in the time of the watchdog, from the start to the end', async () => {
  const { clock, open, stdin, stop, told } = scene();
  const notifier = open({ ...manager, WATCHDOG_PID: String(process.pid) });
  expect(told()).toEqual(['WATCHDOG=1\n']);
  await clock.advance(59_999);
  notifier?.moreTime();
  expect(told()).toEqual(['WATCHDOG=1\n', 'EXTEND_TIMEOUT_USEC=120000000\n']);
  stop.abort();
  await clock.advance(30_000);
  expect(told()).toEqual(['STOPPING=1\n', 'WATCHDOG=1\n']);
  await notifier?.close();
  expect([stdin.writableFinished, clock.pendingTimers]).toEqual([true, 0]);
});

it('where no service manager wants to be told, there is none to tell; and no sign of life where the watchdog is for another process, or has no time', () => {
  const { clock, open, told } = scene();
  expect([open({}), open({ NOTIFY_SOCKET: '' })]).toEqual([undefined, undefined]);
  for (const odd of ['', '0', '-5', 'soon', '1e999'])
    expect(open({ ...manager, WATCHDOG_USEC: odd })).toBeDefined();
  open({ ...manager, WATCHDOG_PID: String(process.pid + 1) });
  expect([told(), clock.pendingTimers]).toEqual([[''], 0]);
});
