import { describe, expect, it } from 'vitest';
import { openServiceNotifier, serviceManagerOf } from '../../../src/app/lifecycle/openServiceNotifier.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { VirtualClock } from '../../support/virtualClock.js';

function opened(watchdogMs?: number, failure?: Error) {
  const clock = new VirtualClock();
  const logger = new RecordingLogger();
  const told: string[] = [];
  const stop = new AbortController();
  const startHelper = (failed: (error: Error) => void) => ({
    send: (message: string) => {
      if (failure === undefined) told.push(message);
      else failed(failure);
    },
    close: async () => void told.push('(closed)'),
  });
  const limit = watchdogMs === undefined ? {} : { WATCHDOG_USEC: `${watchdogMs}000` };
  const environment = { NOTIFY_SOCKET: '/run/systemd/notify', ...limit };
  const notifier = openServiceNotifier(environment, { clock, logger, signal: stop.signal, startHelper });
  if (notifier === undefined) throw new Error('nobody expects messages');
  return { clock, logger, told, stop, notifier };
}

describe('the messages to a service manager', () => {
  it('give two signs of life in the time of the watchdog, from the start until they are closed', async () => {
    const { clock, notifier, stop, told } = opened(60_000);
    expect(told).toEqual(['STATUS=Starting', 'WATCHDOG=1']);
    await clock.advance(59_999);
    expect(told).toEqual(['STATUS=Starting', 'WATCHDOG=1', 'WATCHDOG=1']);
    stop.abort();
    await clock.advance(30_000);
    expect(told.slice(3)).toEqual(['STOPPING=1', 'STATUS=Stopping', 'WATCHDOG=1']);
    await notifier.close();
    await notifier.close('twice');
    expect(told.slice(6)).toEqual(['(closed)']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('tell the status when it has changed, every five seconds at most', async () => {
    const { clock, notifier, told } = opened();
    let height = 1;
    notifier.ready(() => `height ${height}`);
    for (; height < 11; height += 1) await clock.advance(1_000);
    await clock.advance(60_000);
    const heights = [1, 5, 10, 11].map((each) => `STATUS=height ${each}`);
    expect(told).toEqual(['STATUS=Starting', 'READY=1', ...heights]);
  });

  it('put a status on one line, and shorten one that is too long for a datagram', async () => {
    const { notifier, told } = opened();
    await notifier.close(`torn\nREADY=1 ${'x'.repeat(200_000)}`);
    expect(told[1]).toMatch(/^STATUS=torn\\u000aREADY=1 x{1,1000}…x{1,1000}$/);
  });
});

describe('serviceManagerOf', () => {
  const socket = { NOTIFY_SOCKET: '/run/systemd/notify' };

  it('knows none where none wants to be told', () => {
    expect(serviceManagerOf({}, 7)).toBeUndefined();
    expect(serviceManagerOf({ NOTIFY_SOCKET: '', WATCHDOG_USEC: '1000' }, 7)).toBeUndefined();
  });

  it('takes the time of the watchdog, unless that is for another process or is no time', () => {
    const whole = { watchdogMs: 60_000 };
    expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000' }, 7)).toEqual(whole);
    expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000', WATCHDOG_PID: '7' }, 7)).toEqual(whole);
    expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: '60000000', WATCHDOG_PID: '8' }, 7)).toEqual({});
    for (const odd of ['', '0', '-5', 'soon', '1e999'])
      expect(serviceManagerOf({ ...socket, WATCHDOG_USEC: odd }, 7)).toEqual({});
  });
});
