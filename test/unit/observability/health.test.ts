import { expect, it, vi } from 'vitest';
import { monitorHealth, type Finding } from '../../../src/observability/index.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

const behind: Finding = { code: 'behind', message: '101 heights behind', height: 1000 };
const refusing: Finding = { code: 'upstream_refusing', message: `a:1 said no to ${'ab'.repeat(32)}` };

/** A clock whose process may stand still: then timers are late, and so is what it would have heard. */
class StillClock extends VirtualClock {
  stoodStillMs = 0;
  override monotonic = () => super.monotonic() + this.stoodStillMs;
}

function monitored() {
  const clock = new StillClock();
  const logger = new RecordingLogger();
  const state = { findings: [] as Finding[] };
  const found = vi.fn((_sinceStandstillMs: number) => state.findings);
  const monitor = monitorHealth({ clock, logger, findings: found });
  monitor.start();
  const logged = () => logger.records.splice(0).map(({ message, fields }) => [message, fields['code']]);
  return { clock, found, logger, logged, monitor, state };
}

it('counts the age of a reason from its own edge, again after it was gone', async () => {
  const { clock, monitor, state } = monitored();
  expect(monitor.readiness()).toEqual({ ready: true, reasons: [] });
  state.findings = [behind];
  expect(monitor.readiness().reasons).toEqual([{ ...behind, sinceSeconds: 0 }]);
  await clock.advance(30_000);
  expect(monitor.readiness().reasons[0]?.sinceSeconds).toBe(30);
  state.findings = [];
  expect(monitor.readiness().ready).toBe(true);
  state.findings = [behind];
  expect(monitor.readiness().reasons[0]?.sinceSeconds).toBe(0);
});

it('logs what went before what came, once each, and says once that it is ready', async () => {
  const { clock, logged, monitor, state } = monitored();
  state.findings = [behind];
  await clock.advance(10_000);
  state.findings = [refusing];
  monitor.readiness();
  state.findings = [];
  await clock.advance(10_000);
  expect(logged()).toEqual([
    ['not ready', 'behind'],
    ['readiness reason cleared', 'behind'],
    ['not ready', 'upstream_refusing'],
    ['readiness reason cleared', 'upstream_refusing'],
    ['ready', undefined],
  ]);
  monitor.close();
  expect(clock.pendingTimers).toBe(0);
});

it('logs another cause of a code that stays, once a minute at most, and no mere change of amounts', async () => {
  const { clock, logger, monitor, state } = monitored();
  const told = async (message: string): Promise<unknown[]> => {
    state.findings = [{ code: 'disk_low', message }];
    await clock.advance(61_000);
    return logger.records.splice(0).map((record) => [record.message, record.fields['detail']]);
  };
  expect(await told('900 MiB are left (once, since 02:00:01 UTC)')).toHaveLength(1);
  expect(await told('899 MiB are left (2 times since 02:00:01 UTC)')).toEqual([]);
  expect(await told('paused for 59s: 500 MiB')).toEqual([
    ['not ready, for another cause', 'paused for 59s: 500 MiB'],
  ]);
  expect(await told('paused for 1m 2s: 480 MiB')).toEqual([]);
  expect(monitor.readiness().reasons[0]?.sinceSeconds).toBe(4 * 61 - 1);
  for (let turn = 0; turn < 60; turn++) {
    state.findings = [{ code: 'disk_low', message: turn % 2 === 0 ? 'this' : 'that' }];
    await clock.advance(1_000);
  }
  expect(logger.records).toHaveLength(1);
});

it('warns of trouble only, and logs what is meant for the log', () => {
  const { logger, monitor, state } = monitored();
  state.findings = [behind, refusing];
  expect(monitor.readiness().reasons.at(-1)?.message).toBe(refusing.message);
  expect(logger.records).toMatchObject([
    { level: 'info', fields: { code: 'behind', detail: '101 heights behind', height: 1000 } },
    { level: 'warn', fields: { code: 'upstream_refusing', detail: 'a:1 said no to …' } },
  ]);
});

it('says that the process stood still, and blames nobody for what that made late', async () => {
  const { clock, found, logger, monitor, state } = monitored();
  await clock.advance(2_000);
  clock.stoodStillMs = 41_000;
  state.findings = [refusing];
  // Others ask too, and before its own timer.
  expect(monitor.readiness().ready).toBe(true);
  await clock.advance(900);
  expect(monitor.readiness().ready).toBe(true);
  state.findings = [];
  await clock.advance(2_000);
  expect(found.mock.calls.flat()).toEqual([Infinity, Infinity, Infinity, 1_000, 2_000]);
  await clock.advance(3_000);
  const told = { level: 'warn', message: 'the process stood still', fields: { seconds: 40 } };
  expect(logger.records).toMatchObject([told]);
});
