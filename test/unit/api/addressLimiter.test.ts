import { expect, it } from 'vitest';
import { AddressLimiter } from '../../../src/api/limits/AddressLimiter.js';
import { VirtualClock } from '../../support/virtualClock.js';

it.each([
  ['10.0.0.1', '::ffff:10.0.0.1', true],
  ['2001:db8:1:2::1', '2001:db8:1:2:ffff::9', true],
  ['2001:db8:1:2::1', '2001:db8:1:2:3:4:5:6', true],
  ['2001:db8::1', '2001:db8:0:0:1::', true],
  ['2001:db8:1:2::1', '2001:db8:1:3::1', false],
  ['fe80::1%eth0', 'fe80::2%eth1', true],
  ['::1', '::2', true],
  ['::1', '127.0.0.1', false],
])('takes %s and %s for one address: %s', (one, other, same) => {
  const limiter = new AddressLimiter(1, new VirtualClock());
  limiter.refusal(one);
  expect(limiter.refusal(other) !== undefined).toBe(same);
});

it('remembers a bounded number of addresses, those that asked last', () => {
  const limiter = new AddressLimiter(1, new VirtualClock());
  limiter.refusal('192.168.0.1');
  for (let index = 0; index < 12_000; index += 1) {
    limiter.refusal(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`);
    // It asks all the time, so it is not forgotten.
    if (index % 1000 === 0) expect(limiter.refusal('192.168.0.1')).toBeDefined();
  }
  expect(limiter.size).toBe(10_000);
});
