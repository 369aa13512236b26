import { expect, it } from 'vitest';
import { openServiceNotifier, serviceManagerOf } from '../../../src/app/lifecycle/openServiceNotifier.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

const socket = { NOTIFY_SOCKET: '/run/systemd/notify' };

function opened(environment: Record<string, string>) {
  const clock = new VirtualClock();
  const told: string[] = [];
  const stop = new AbortController();
  const send = (message: string): void => void told.push(message);
  const startHelper = () => ({ send, close: async () => send('(closed)') });
  const parts = { clock, logger: new RecordingLogger(), signal: stop.signal, startHelper };
  return { clock, notifier: openServiceNotifier({ ...socket, ...environment }, parts), stop, told };
}

it('the messages to a service manager give two signs of life in the time of the watchdog, from the start to the end', async () => {
  const { clock, notifier, stop, told } = opened({ WATCHDOG_USEC: '60000000' });
  expect(told).toEqual(['WATCHDOG=1']);
  await clock.advance(59_999);
  expect(told).toEqual(['WATCHDOG=1', 'WATCHDOG=1']);
  stop.abort();
  await clock.advance(30_000);
  expect(told.slice(2)).toEqual(['STOPPING=1', 'WATCHDOG=1']);
  await notifier?.close();
  expect([told.slice(4), clock.pendingTimers]).toEqual([['(closed)'], 0]);
});

it('slow work of a start gets two minutes more, again and again until it ends', async () => {
  const { clock, notifier, told } = opened({});
  let finish = (): void => undefined;
  const slow = notifier?.slow(new Promise((resolve) => (finish = resolve)));
  await clock.advance(119_000);
  finish();
  await slow;
  expect(told).toEqual(Array(4).fill('EXTEND_TIMEOUT_USEC=120000000'));
  expect(clock.pendingTimers).toBe(0);
});

it('serviceManagerOf knows none where none wants to be told, and takes the time of the watchdog, unless that is for another process or is no time', () => {
  expect(serviceManagerOf({}, 7)).toBeUndefined();
  expect(serviceManagerOf({ NOTIFY_SOCKET: '', WATCHDOG_USEC: '1000' }, 7)).toBeUndefined();
  const whole = { watchdogMs: 60_000 };
  expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000' }, 7)).toEqual(whole);
  expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000', WATCHDOG_PID: '7' }, 7)).toEqual(whole);
  expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000', WATCHDOG_PID: '8' }, 7)).toEqual({});
  for (const odd of ['', '0', '-5', 'soon', '1e999'])
    expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: odd }, 7)).toEqual({});
});
