import { expect, it } from 'vitest';
import { openServiceNotifier, serviceManagerOf } from '../../../src/app/lifecycle/openServiceNotifier.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

it('the messages to a service manager give two signs of life in the time of the watchdog, from the start to the end', async () => {
  const clock = new VirtualClock();
  const told: string[] = [];
  const stop = new AbortController();
  const send = (message: string): void => void told.push(message);
  const startHelper = () => ({ send, close: async () => send('(closed)') });
  const environment = { NOTIFY_SOCKET: '/run/systemd/notify', WATCHDOG_USEC: '60000000' };
  const parts = { clock, logger: new RecordingLogger(), signal: stop.signal, startHelper };
  const notifier = openServiceNotifier(environment, parts);
  expect(told).toEqual(['WATCHDOG=1']);
  let finish = (): void => undefined;
  const slow = notifier?.slow(new Promise((resolve) => (finish = resolve)));
  await clock.advance(59_999);
  const inTurn = ['WATCHDOG=1', 'EXTEND_TIMEOUT_USEC=120000000'];
  expect(told.splice(2)).toEqual(inTurn);
  expect(told).toEqual(inTurn);
  finish();
  await slow;
  stop.abort();
  await clock.advance(30_000);
  expect(told.slice(2)).toEqual(['STOPPING=1', 'WATCHDOG=1']);
  await notifier?.close();
  expect([told.slice(4), clock.pendingTimers]).toEqual([['(closed)'], 0]);
});

it('serviceManagerOf knows none where none wants to be told, and takes the time of the watchdog, unless that is for another process or is no time', () => {
  expect(serviceManagerOf({}, 7)).toBeUndefined();
  expect(serviceManagerOf({ NOTIFY_SOCKET: '', WATCHDOG_USEC: '1000' }, 7)).toBeUndefined();
  const socket = { NOTIFY_SOCKET: '/run/systemd/notify' };
  const whole = { watchdogMs: 60_000 };
  expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000' }, 7)).toEqual(whole);
  expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000', WATCHDOG_PID: '7' }, 7)).toEqual(whole);
  expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000', WATCHDOG_PID: '8' }, 7)).toEqual({});
  for (const odd of ['', '0', '-5', 'soon', '1e999'])
    expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: odd }, 7)).toEqual({});
});
