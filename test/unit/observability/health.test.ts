import { describe, expect, it } from 'vitest';
import { HealthMonitor } from '../../../src/observability/index.js';
import type { Finding, HealthOptions, Readiness } from '../../../src/observability/index.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { VirtualClock } from '../../support/virtualClock.js';

/** A daemon that is up and at the head, whose state a test changes at will. */
function healthyDaemon(options: Partial<HealthOptions> = {}) {
  const clock = new VirtualClock();
  const logger = new RecordingLogger();
  const state = {
    phase: 'running' as 'starting' | 'running' | 'stopping',
    latest: 1000,
    head: 1000 as number | undefined,
    /** True while nodes answer. */
    upstream: true,
    lastAnswer: undefined as number | undefined,
    trouble: undefined as string | undefined,
    executionData: true,
    parentMismatch: undefined as Finding | undefined,
    unresolvable: undefined as Finding | undefined,
    commitStartedAtMs: undefined as number | undefined,
  };
  const monitor = new HealthMonitor(
    { readyMaxLag: 100, ...options },
    {
      clock,
      logger,
      probes: {
        phase: () => state.phase,
        latestIndexedHeight: () => state.latest,
        headHeight: () => state.head,
        headAnsweredAtMs: () => {
          if (state.upstream) state.lastAnswer = clock.monotonic();
          return state.lastAnswer;
        },
        upstreamTrouble: () => state.trouble,
        executionDataAvailable: () => state.executionData,
        parentMismatch: () => state.parentMismatch,
        unresolvable: () => state.unresolvable,
        commitStartedAtMs: () => state.commitStartedAtMs,
      },
    },
  );
  monitor.start();
  return { clock, logger, monitor, state };
}

function codes(readiness: Readiness): string[] {
  return readiness.reasons.map(({ code }) => code);
}

describe('HealthMonitor', () => {
  it('is ready at the head', () => {
    expect(healthyDaemon().monitor.readiness()).toEqual({ ready: true, reasons: [] });
  });

  it('is ready while starting is over and the lag is small, and names the lag when it is not', async () => {
    const { clock, monitor, state } = healthyDaemon();
    state.head = 1100;
    expect(monitor.readiness().ready).toBe(true);
    state.head = 1101;
    await clock.advance(5000);
    expect(monitor.readiness()).toEqual({
      ready: false,
      reasons: [
        {
          code: 'behind',
          message: '101 heights behind the head 1101; ready at 100 or fewer',
          height: 1000,
          sinceSeconds: 4,
        },
      ],
    });
    state.latest = 1001;
    expect(monitor.readiness().ready).toBe(true);
  });

  it('counts the age of a reason from its own edge, again after it was gone', async () => {
    const { clock, monitor, state } = healthyDaemon();
    state.head = 2000;
    expect(monitor.readiness().reasons[0]?.sinceSeconds).toBe(0);
    await clock.advance(30_000);
    expect(monitor.readiness().reasons[0]?.sinceSeconds).toBe(30);
    state.latest = 2000;
    expect(monitor.readiness().ready).toBe(true);
    state.head = 3000;
    expect(monitor.readiness().reasons[0]?.sinceSeconds).toBe(0);
  });

  it('raises no alarm for a quiet chain, however long it is quiet', async () => {
    const { clock, monitor, logger } = healthyDaemon();
    await clock.advance(3_600_000);
    expect(monitor.readiness().ready).toBe(true);
    expect(logger.records).toEqual([]);
  });

  it('does not take the quiet before for a stall when the head moves on', async () => {
    const { clock, monitor, state } = healthyDaemon();
    await clock.advance(600_000);
    state.head = 1001;
    expect(codes(monitor.readiness())).toEqual([]);
    await clock.advance(58_000);
    expect(codes(monitor.readiness())).toEqual([]);
  });

  it('says that the upstream is unreachable after 60 s without an answer about the head', async () => {
    const { clock, monitor, state } = healthyDaemon();
    state.upstream = false;
    await clock.advance(59_000);
    expect(monitor.readiness().ready).toBe(true);
    await clock.advance(2000);
    expect(codes(monitor.readiness())).toEqual(['upstream_unreachable']);
    state.upstream = true;
    expect(monitor.readiness().ready).toBe(true);
  });

  it('says so too when no node ever answered', async () => {
    const { clock, monitor, state } = healthyDaemon();
    state.upstream = false;
    state.head = undefined;
    state.lastAnswer = undefined;
    expect(codes(monitor.readiness())).toEqual(['starting']);
    await clock.advance(61_000);
    expect(codes(monitor.readiness())).toEqual(['starting', 'upstream_unreachable']);
  });

  it('says why the nodes are silent, wherever that is what it waits for', async () => {
    const { clock, monitor, state } = healthyDaemon();
    const messages = () => monitor.readiness().reasons.map(({ message }) => message);
    state.trouble = 'node:9000: certificate has expired';
    expect(messages()).toEqual([]);
    state.phase = 'starting';
    expect(messages()).toEqual(['the daemon is starting (node:9000: certificate has expired)']);
    state.phase = 'running';
    state.head = undefined;
    state.upstream = false;
    await clock.advance(61_000);
    expect(messages()).toEqual([
      'no access node has told its finalized head yet (node:9000: certificate has expired)',
      expect.stringMatching(
        /^no access node has told its head for 61 seconds \(node:9000: certificate has expired\); see/,
      ),
    ]);
    state.trouble = undefined;
    state.head = 1000;
    state.upstream = true;
    expect(messages()).toEqual([]);
  });

  it('says that it stalled when there is work below the head and nothing became durable for 60 s', async () => {
    const { clock, monitor, state } = healthyDaemon();
    state.head = 1010;
    await clock.advance(59_000);
    state.latest = 1001;
    await clock.advance(59_000);
    expect(monitor.readiness().ready).toBe(true);
    await clock.advance(3000);
    const [reason] = monitor.readiness().reasons;
    expect(reason).toMatchObject({ code: 'store_stalled', height: 1002 });
    expect(reason?.message).toContain('waits for its collections');
    state.latest = 1002;
    expect(monitor.readiness().ready).toBe(true);
  });

  it('names the store when the store is what stands still', async () => {
    const { clock, monitor, state } = healthyDaemon();
    state.head = 1010;
    state.commitStartedAtMs = clock.monotonic();
    await clock.advance(75_000);
    expect(monitor.readiness().reasons[0]?.message).toContain(
      'the store has been writing one batch for 75 seconds',
    );
  });

  it('misses execution data only where it is the sole source', () => {
    const hybrid = healthyDaemon();
    hybrid.state.executionData = false;
    expect(hybrid.monitor.readiness().ready).toBe(true);
    const ediOnly = healthyDaemon({ ediOnly: true });
    expect(ediOnly.monitor.readiness().ready).toBe(true);
    ediOnly.state.executionData = false;
    expect(codes(ediOnly.monitor.readiness())).toEqual(['edi_unavailable']);
  });

  it('passes on parent mismatches and unresolvable heights with their heights', () => {
    const { monitor, state } = healthyDaemon();
    state.parentMismatch = { message: 'block 1001 does not continue block 1000', height: 1001 };
    state.unresolvable = { message: 'collection abc of height 990 is gone', height: 990 };
    expect(monitor.readiness().reasons).toEqual([
      { code: 'parent_mismatch', ...state.parentMismatch, sinceSeconds: 0 },
      { code: 'unresolvable', ...state.unresolvable, sinceSeconds: 0 },
    ]);
  });

  it('gives starting and stopping as the reason, whatever else holds', async () => {
    const { clock, monitor, state } = healthyDaemon();
    state.phase = 'starting';
    state.head = 5000;
    expect(codes(monitor.readiness())).toEqual(['starting']);
    await clock.advance(120_000);
    state.phase = 'running';
    expect(codes(monitor.readiness())).toEqual(['behind']);
    state.phase = 'stopping';
    expect(codes(monitor.readiness())).toEqual(['stopping']);
  });

  it('logs what went before what came, and says once that it is ready', () => {
    const { logger, monitor, state } = healthyDaemon();
    const logged = () => logger.records.splice(0).map(({ message, fields }) => [message, fields['code']]);
    state.phase = 'starting';
    monitor.readiness();
    state.phase = 'running';
    state.head = 5000;
    state.parentMismatch = { message: 'mismatch' };
    monitor.readiness();
    expect(logged()).toEqual([
      ['not ready', 'starting'],
      ['reason gone', 'starting'],
      ['not ready', 'behind'],
      ['not ready', 'parent_mismatch'],
    ]);
    state.head = 1000;
    state.parentMismatch = undefined;
    monitor.readiness();
    expect(logged()).toEqual([
      ['reason gone', 'behind'],
      ['reason gone', 'parent_mismatch'],
      ['ready', undefined],
    ]);
  });

  it('logs each reason when it arises and when it goes, and nothing in between', async () => {
    const { clock, logger, monitor, state } = healthyDaemon();
    state.head = 1010;
    await clock.advance(120_000);
    expect(logger.records).toEqual([
      {
        level: 'warn',
        message: 'not ready',
        fields: { code: 'store_stalled', detail: expect.any(String) as string, height: 1001 },
      },
    ]);
    state.latest = 1010;
    await clock.advance(5000);
    expect(logger.messages()).toEqual(['not ready', 'reason gone', 'ready']);
    state.head = 1500;
    monitor.readiness();
    expect(logger.records.at(-1)).toMatchObject({ level: 'info', message: 'not ready' });
  });

  it('logs what it is given for the log, and answers with the whole message', () => {
    const { logger, monitor, state } = healthyDaemon();
    state.unresolvable = { message: 'height 990 lacks abc', logged: 'height 990 lacks 1 id', height: 990 };
    expect(monitor.readiness().reasons).toEqual([
      { code: 'unresolvable', message: 'height 990 lacks abc', height: 990, sinceSeconds: 0 },
    ]);
    expect(logger.records).toMatchObject([
      { level: 'warn', fields: { code: 'unresolvable', detail: 'height 990 lacks 1 id', height: 990 } },
    ]);
  });

  it('stops looking when it is closed', () => {
    const { clock, monitor } = healthyDaemon();
    monitor.close();
    expect(clock.pendingTimers).toBe(0);
  });
});
