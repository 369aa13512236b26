import { describe, expect, it } from 'vitest';
import { serviceManagerOf } from '../../../src/app/lifecycle/openServiceNotifier.js';

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
