import { expect, it } from 'vitest';
import type { Leadership } from '../../../src/ranges/index.js';
import { systemClock, type Clock } from '../../../src/runtime/index.js';
import { asAdmin, lockHeld, until, usePostgres, valueIn, VirtualClock } from '../../support/index.js';
import { together } from '../../support/together.js';

const WAIT_MS = 20_000;
/** What docs/scale-out.md promises, and what a busy machine may add. */
const TAKEOVER_MS = 12_000 + 2_000;

const postgres = usePostgres();
const database = async (): Promise<string> => {
  const home = await postgres.home();
  await home.open();
  return home.url;
};

const join = async (url: string, clock: Clock = systemClock, roles: readonly string[] = ['live']) => {
  let kills = 0;
  const queue = await postgres.queue(url, { roles }, { clock, onKill: () => (kills += 1) });
  return { queue, leadership: queue, worker: queue.id, kills: () => kills };
};

const someoneWaits = async (url: string): Promise<void> => {
  const waiting = `SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE relation = 'flow_store.worker'::regclass AND mode = 'RowExclusiveLock' AND wait_event_type = 'Lock'`;
  await until(async () => (await asAdmin(url, waiting)).rowCount !== 0);
};

const lead = (leadership: Leadership, waitMs = WAIT_MS) => leadership.lead(AbortSignal.timeout(waitMs));

it('one leads, and each is known by its beats', () =>
  together({
    'one leads, and the next one as soon as it lets go': async () => {
      const url = await database();
      const [one, two] = [await join(url), await join(url)];
      const term = await lead(one.leadership);
      expect(term?.lost.aborted).toBe(false);
      expect(await lead(two.leadership, 3_000)).toBeUndefined();
      await until(() => two.leadership.leader()?.id === one.worker);
      const next = lead(two.leadership);
      await Promise.all([term?.release(), term?.release()]);
      const releasedAtMs = performance.now();
      expect(await next).toBeDefined();
      expect(performance.now() - releasedAtMs).toBeLessThan(3_000);
      expect(await lead(one.leadership, 2_000)).toBeUndefined();
      // That of the first one does not stay.
      expect(await valueIn(url, "SELECT count(*) AS value FROM flow_jobs.job WHERE name = 'live'")).toBe('1');
    },

    'another leads when the leader is silent, who learns that it was replaced': async () => {
      const url = await database();
      const still = new VirtualClock();
      const one = await join(url, still);
      const term = await lead(one.leadership);
      const two = await join(url);
      // In a container that was started again after a crash, another process has the same name.
      const name =
        "set_config('application_name', 'flow-collection-indexer ' || right(host, 30) || ':' || pid, false)";
      const { release } = await lockHeld(url, `SELECT ${name} FROM flow_store.worker`);
      const silentAtMs = performance.now();
      expect(await lead(two.leadership)).toBeDefined();
      expect(performance.now() - silentAtMs).toBeLessThan(TAKEOVER_MS);
      await release();
      expect(term?.lost.aborted).toBe(false);
      await still.advance(3_000);
      await until(() => term?.lost.aborted === true);
      await term?.release();
      await until(() => two.leadership.leader()?.id === two.worker);
    },

    'another leads where one that leads, or is about to, was stopped in the middle of a transaction':
      async () => {
        await Promise.all(
          [true, false].map(async (leads) => {
            const url = await database();
            const one = await join(url, new VirtualClock());
            if (leads) expect(await lead(one.leadership)).toBeDefined();
            // The server would cut the name of its sessions before the number.
            const host = `${'a-pod-'.repeat(9)}${String(leads)}`;
            const then = `beat_at - interval '${leads ? 60 : 0} s'`;
            await asAdmin(url, `UPDATE flow_store.worker SET host = $1, pid = 7, beat_at = ${then}`, [host]);
            const name = `flow-collection-indexer ${host.slice(-30)}:7`;
            const lock = 'LOCK TABLE flow_jobs.job IN ACCESS EXCLUSIVE MODE';
            await lockHeld(url, `SET application_name = '${name}'; ${lock}`);
            const two = await join(url);
            const silentAtMs = performance.now();
            expect(await lead(two.leadership)).toBeDefined();
            expect(performance.now() - silentAtMs).toBeLessThan(TAKEOVER_MS);
          }),
        );
      },

    'another leads though a living process still says that it does, where the job is free': async () => {
      const url = await database();
      const [one, two] = [await join(url), await join(url)];
      const term = await lead(one.leadership);
      const next = lead(two.leadership);
      await until(() => two.leadership.leader()?.id === one.worker);
      await asAdmin(url, "UPDATE flow_jobs.job SET state = 'created' WHERE name = 'live'");
      expect(await next).toBeDefined();
      await until(() => term?.lost.aborted === true);
    },

    'shows that it lives while it waits to give back what a silent one holds': async () => {
      const url = await database();
      const one = await join(url, new VirtualClock());
      expect(await lead(one.leadership)).toBeDefined();
      const lock = await lockHeld(url, 'LOCK TABLE flow_jobs.job IN ACCESS EXCLUSIVE MODE');
      const two = await join(url);
      await someoneWaits(url);
      const beats = `SELECT beat AS value FROM flow_store.worker WHERE id = '${two.worker}'`;
      const beat = async (): Promise<number> => Number(await valueIn(url, beats));
      const before = await beat();
      // Three beats: later it would count as silent itself, and the lock is waited for longer than that.
      await expect.poll(beat, { timeout: 10_000, interval: 100 }).toBeGreaterThanOrEqual(before + 3);
      await lock.release();
    },

    'judges no other by what it saw before it was suspended': async () => {
      const url = await database();
      const one = await join(url, new VirtualClock());
      expect(await lead(one.leadership)).toBeDefined();
      // However long it takes to get there, nobody is silent until then.
      const late = { ms: 0 };
      const two = await join(url, { ...systemClock, monotonic: () => late.ms });
      // It cannot look again before this is over, and goes on with what it does besides.
      const lock = await lockHeld(url, `SELECT FROM flow_store.worker WHERE id = '${two.worker}' FOR UPDATE`);
      late.ms = 60_000;
      for (let rounds = 0; rounds < 3; rounds += 1) {
        const later = "UPDATE flow_jobs.job SET state = 'created', start_after = now() + interval '1 h'";
        await asAdmin(url, later);
        const isFreed = 'SELECT FROM flow_jobs.job WHERE start_after <= now()';
        await until(async () => (await asAdmin(url, isFreed)).rowCount === 1);
      }
      expect((await asAdmin(url, "SELECT FROM flow_store.worker WHERE busy <> '[]'")).rowCount).toBe(1);
      await lock.release();
    },

    'says with each beat what it holds, whatever was known of that': async () => {
      const url = await database();
      const { queue } = await join(url);
      await asAdmin(url, `UPDATE flow_store.worker SET busy = '[{"queue": "live", "id": ""}]'`);
      await until(async () => (await queue.workers()).every(({ leads }) => !leads));
    },

    'takes no job for lost that it is about to take': async () => {
      const url = await database();
      const clock = new VirtualClock();
      const one = await join(url, clock);
      const lock = await lockHeld(url, 'SELECT FROM flow_store.worker FOR UPDATE');
      const leading = lead(one.leadership);
      await someoneWaits(url);
      const heartbeat = async (): Promise<unknown> => {
        await clock.advance(3_000);
        return valueIn(url, "SELECT heartbeat_on::text AS value FROM flow_jobs.job WHERE name = 'live'");
      };
      // One that is sent now finds no job that is held.
      for (let count = 0; count < 5; count += 1) await heartbeat();
      await lock.release();
      const term = await leading;
      const first = await heartbeat();
      await expect.poll(heartbeat, { timeout: WAIT_MS, interval: 100 }).not.toBe(first);
      expect(term?.lost.aborted).toBe(false);
    },

    'each is told of the wish to end it, and leaves its row behind': async () => {
      const url = await database();
      const [one, two] = [await join(url), await join(url)];
      expect((await one.queue.workers()).map(({ id, isAlive }) => [id, isAlive]).sort()).toEqual(
        [one, two].map(({ worker }) => [worker, true]).sort(),
      );
      await until(() => one.queue.liveWorkers() === 2);
      // One that serves readers alone counts for itself only.
      const reader = await join(url, systemClock, ['api']);
      await until(() => reader.queue.liveWorkers() === 3);
      await until(async () => (await one.queue.workers()).some(({ id }) => id === reader.worker));
      expect(one.queue.liveWorkers()).toBe(2);
      await reader.queue.close();
      expect(await one.queue.kill([two.worker])).toBe(1);
      await until(() => two.kills() === 1);
      expect(one.kills()).toBe(0);
      await two.queue.close();
      expect((await one.queue.workers()).find(({ id }) => id === two.worker)).toMatchObject({
        ...{ state: 'stopped', isAlive: false, busyWith: [], isAskedToEnd: true },
      });
      await until(() => one.queue.liveWorkers() === 1);
      expect(await one.queue.kill([two.worker])).toBe(0);
      // The clock of the server was set back.
      const later = `UPDATE flow_store.worker SET state = 'ready', beat_at = now() + interval '2 hours' WHERE id = $1`;
      await asAdmin(url, later, [two.worker]);
      expect((await one.queue.workers()).filter(({ isAlive }) => isAlive)).toHaveLength(1);
      const agedBy = `UPDATE flow_store.worker SET beat_at = now() - interval '25 hours' WHERE id = $1`;
      await asAdmin(url, agedBy, [two.worker]);
      await until(async () => (await one.queue.workers()).length === 2);
    },
  }));
