import { expect, it } from 'vitest';
import { STOP_TIMEOUT_MS } from '../../../src/app/index.js';
import { openLifecycle } from '../../../src/app/lifecycle/openLifecycle.js';
import { AbortError, whenAborted } from '../../../src/runtime/index.js';
import { DatabaseFault } from '../../../src/storage/index.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

function life() {
  const clock = new VirtualClock();
  const logger = new RecordingLogger();
  return { clock, logger, lifecycle: openLifecycle({ clock, logger }) };
}

it('closing happens in the reverse order of making, one after the other, past a part that fails, which is reported then', async () => {
  const { lifecycle } = life();
  const closed: string[] = [];
  lifecycle.onClose('store', () => void closed.push('store'));
  lifecycle.onClose('writer', () => Promise.resolve().then(() => void closed.push('writer')));
  lifecycle.onClose('server', () => Promise.reject(new Error('port is stuck')));
  lifecycle.onClose('source', () => void closed.push('source'));
  await expect(lifecycle.close()).rejects.toThrow('port is stuck');
  expect([closed, lifecycle.signal.aborted]).toEqual([['source', 'writer', 'store'], true]);
});

it('closing leaves behind a part that does not end within the limit, and closes the rest', async () => {
  const { lifecycle, clock, logger } = life();
  let isStoreClosed = false;
  lifecycle.onClose('store', () => void (isStoreClosed = true));
  lifecycle.onClose('stuck', () => new Promise(() => undefined));
  const closing = lifecycle.close();
  await clock.advance(STOP_TIMEOUT_MS);
  await closing;
  expect(isStoreClosed).toBe(true);
  expect(logger.records.map(({ message }) => message)).toContain('part did not close in time');
});

it('work in hand is waited for as long as it takes while nobody stops the daemon, which a step of the start tells every ten seconds', async () => {
  const { lifecycle, clock, logger } = life();
  const work = new AbortController();
  let told = 0;
  const step = lifecycle.step('work', whenAborted(work.signal), () => (told += 1));
  const waiting = lifecycle.waitFor('work', step).then(() => 'over');
  await clock.advance(10 * STOP_TIMEOUT_MS);
  expect(logger.records[1]?.fields).toEqual({ step: 'work', seconds: 20 });
  expect(told).toBe(STOP_TIMEOUT_MS / 1_000);
  expect(await Promise.race([waiting, Promise.resolve('under way')])).toBe('under way');
  work.abort();
  expect([await waiting, clock.pendingTimers]).toEqual(['over', 0]);
});

it('work in hand that does not heed the stop leaves the parts only what is left of the limit', async () => {
  const { lifecycle, clock, logger } = life();
  lifecycle.onClose('stuck', () => new Promise(() => undefined));
  const over = lifecycle.waitFor('stuck work', new Promise(() => undefined)).then(() => lifecycle.close());
  lifecycle.stop();
  await clock.advance(STOP_TIMEOUT_MS);
  await over;
  expect(logger.records.map(({ fields }) => fields['part'])).toEqual(['stuck work', 'stuck']);
});

it.each([
  [true, 'is none once the daemon was told to stop'],
  [false, 'is one before'],
])('failure: of a database that is away (%s: %s)', async (isStopped) => {
  const { lifecycle } = life();
  if (isStopped) lifecycle.stop();
  // Nor is what a loop says that was told to stop.
  if (isStopped) lifecycle.supervise(Promise.reject(new AbortError()));
  lifecycle.fail(new DatabaseFault('unavailable', 'it is away', {}));
  const closing = lifecycle.close();
  await (isStopped ? closing : expect(closing).rejects.toThrow('it is away'));
});

it.each<[string, (lifecycle: ReturnType<typeof life>['lifecycle'], bug: Promise<never>) => unknown]>([
  ['of work in hand', (lifecycle, bug) => lifecycle.waitFor('work', bug)],
  ['of a supervised loop', (lifecycle, bug) => lifecycle.supervise(bug)],
])('failure: %s ends the daemon with its error, and not with one that comes later', async (_, give) => {
  const { lifecycle } = life();
  await give(lifecycle, Promise.reject(new Error('a bug')));
  await whenAborted(lifecycle.signal);
  lifecycle.fail(new Error('later'));
  await expect(lifecycle.close()).rejects.toThrow('a bug');
});
