import { execFileSync } from 'node:child_process';
import { rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Dice } from '../simulation/Dice.js';
import { asAdmin } from '../support/postgresServer.js';
import type { Cluster, Member } from './Cluster.js';
import { demand } from '../support/campaign.js';

const TAKEOVER_LIMIT_MS = 12_000;
const LOST_HEIGHTS = 500;
/** Longer than any lease. */
const LONGER_THAN_A_LEASE_MS = 25_000;

export interface Scene {
  readonly name: string;
  readonly what: string;
  /** Expected errors: `Verdict`. What it returns is worth telling. */
  readonly play: (cluster: Cluster, dice: Dice) => Promise<string | undefined>;
}

/** Everything is planned, and at least `count` ranges have begun. */
async function begun(cluster: Cluster, count = 4): Promise<void> {
  await cluster.command('backfill', 'plan', '--from', '0');
  await cluster.until(`${count} ranges have begun`, async () => {
    const open = await cluster.openRanges();
    return open.filter(({ from, next }) => next > from).length >= count;
  });
}

async function epochs(cluster: Cluster): Promise<ReadonlyMap<number, number>> {
  return new Map((await cluster.openRanges()).map(({ from, epoch }) => [from, epoch]));
}

function signal({ daemon }: Member, name: NodeJS.Signals): void {
  daemon.program.child.kill(name);
}

function slowNode({ world }: Cluster): void {
  world.devnet.node.setFaults([{ method: '*', fault: 'latency', delayMs: 150 }]);
}

const told: Readonly<Record<string, Omit<Scene, 'name'>>> = {
  kill: {
    what: 'workers are killed (SIGKILL) at random, and started again',
    play: async (cluster, dice) => {
      const { workers } = await cluster.startUsual();
      await begun(cluster);
      for (let kill = 0; kill < 6; kill += 1) {
        await pause(500 + dice.random.next() * 2_500);
        const worker = workers[Math.floor(dice.random.next() * workers.length)];
        if (worker === undefined) continue;
        await worker.daemon.program.stop('SIGKILL');
        await cluster.restart(worker);
      }
      return '6 kills';
    },
  },
  again: {
    what: 'a worker dies, and its ranges run again elsewhere within 12 s',
    play: async (cluster) => {
      await cluster.startLeader();
      slowNode(cluster);
      const doomed = await cluster.start('doomed');
      await begun(cluster);
      const before = await epochs(cluster);
      await cluster.start('heir', { ranges: 16 });
      await doomed.daemon.program.stop('SIGKILL');
      const diedAtMs = performance.now();
      await cluster.until('the ranges of the dead run again', async () => {
        const now = await epochs(cluster);
        // One that is gone is published: it has run again, too.
        return [...before].every(([from, epoch]) => (now.get(from) ?? Infinity) > epoch);
      });
      const tookMs = performance.now() - diedAtMs;
      cluster.world.devnet.node.setFaults([]);
      demand(tookMs <= TAKEOVER_LIMIT_MS, `its ranges ran again after ${seconds(tookMs)}`);
      return `${before.size} ranges run again after ${seconds(tookMs)}`;
    },
  },
  sleep: {
    what: 'a worker is stopped (SIGSTOP) for longer than its leases, and goes on',
    play: async (cluster) => {
      const { workers } = await cluster.startUsual();
      slowNode(cluster);
      await begun(cluster, 8);
      const [sleeper] = workers;
      if (sleeper === undefined) return undefined;
      signal(sleeper, 'SIGSTOP');
      await pause(LONGER_THAN_A_LEASE_MS);
      signal(sleeper, 'SIGCONT');
      cluster.world.devnet.node.setFaults([]);
      return undefined;
    },
  },
  database: {
    what: 'PostgreSQL is stopped at once (immediate) and started again after 3 s',
    play: async (cluster) => {
      await cluster.startUsual();
      await begun(cluster);
      await cluster.world.server.kill();
      await pause(3_000);
      await cluster.world.server.start();
      return undefined;
    },
  },
  disk: {
    what: 'the disk of PostgreSQL is full for a while',
    play: async (cluster) => {
      const disk = cluster.world.smallDisk;
      if (disk === undefined) return 'left out: only root can mount a small disk';
      await cluster.startUsual();
      await begun(cluster);
      const ballast = join(disk, 'ballast');
      const { bavail, bsize } = statfsSync(disk);
      execFileSync('fallocate', ['--length', String(bavail * bsize - 65_536), ballast]);
      await cluster.until('a daemon says that the database has no room', async () => {
        const answers = await Promise.all(cluster.members.map(({ daemon }) => daemon.health('/readyz')));
        return answers.some(({ body }) => JSON.stringify(body).includes('database_unreachable'));
      });
      rmSync(ballast);
      return undefined;
    },
  },
  network: {
    what: 'the network between a worker and the database is dead for longer than its leases',
    play: async (cluster) => {
      const { workers } = await cluster.startUsual();
      slowNode(cluster);
      await begun(cluster, 8);
      const [lonely, cut] = workers;
      lonely?.faults.freeze();
      await cut?.faults.down();
      await pause(LONGER_THAN_A_LEASE_MS);
      lonely?.faults.thaw();
      await cut?.faults.up();
      cluster.world.devnet.node.setFaults([]);
      return undefined;
    },
  },
  lost: {
    what: 'a range is dropped behind everybody’s back while its plan is filled, and found when the plan is verified',
    play: async (cluster) => {
      await cluster.startLeader();
      // One range at a time: most of the plan is still to be filled when the first are there.
      await cluster.start('first', { ranges: 1 });
      await cluster.command('backfill', 'plan', '--from', '0');
      let from = Infinity;
      await cluster.until(`${LOST_HEIGHTS} heights are published`, async () => {
        const [lowest] = await cluster.coverage();
        if (lowest === undefined || lowest.to - lowest.from < LOST_HEIGHTS) return false;
        ({ from } = lowest);
        return true;
      });
      const tables = ['block', 'body', 'collection', 'transaction', 'account_transaction'];
      const where = `BETWEEN ${from} AND ${from + LOST_HEIGHTS - 1}`;
      await asAdmin(
        cluster.url,
        [
          ...tables.map((table) => `DELETE FROM flow_store.${table} WHERE height ${where}`),
          `UPDATE flow_store.coverage SET from_height = ${from + LOST_HEIGHTS} WHERE from_height = ${from}`,
        ].join(';'),
      );
      demand((await cluster.plans()) === 1, 'the plan was filled before the range was dropped');
      await Promise.all(['second', 'third'].map((name) => cluster.start(name)));
      return `heights ${from} to ${from + LOST_HEIGHTS - 1}`;
    },
  },
  leader: {
    what: 'the leader is stopped (SIGSTOP) in the middle of a write, replaced within 12 s, and goes on behind',
    play: async (cluster, dice) => {
      const { leader } = await cluster.startUsual();
      const second = await cluster.start('second', { roles: 'live,api' });
      await begun(cluster);
      const { head } = cluster.world.devnet.node;
      const writing = `SELECT FROM pg_stat_activity
        WHERE application_name LIKE '%:${leader.daemon.program.child.pid}' AND state <> 'idle' AND wait_event_type = 'Client'`;
      await cluster.until('the leader is stopped in a write', async () => {
        signal(leader, 'SIGCONT');
        head.advance(1);
        await pause(dice.random.next() * 100);
        signal(leader, 'SIGSTOP');
        // What the server works on goes on.
        await pause(50);
        return (await asAdmin(cluster.url, writing)).rowCount !== 0;
      });
      const stoppedAtMs = performance.now();
      head.advance(20);
      const target = head.finalized;
      await cluster.until('another one leads', async () => {
        const live = (await cluster.coverage()).at(-1);
        return live !== undefined && live.to >= target;
      });
      const tookMs = performance.now() - stoppedAtMs;
      signal(leader, 'SIGCONT');
      head.advance(20);
      await cluster.until('both show the new head', async () => {
        const shown = await Promise.all([leader, second].map(({ daemon }) => daemon.status()));
        return shown.every(({ latestIndexed }) => (latestIndexed ?? -1) >= target + 20);
      });
      demand(tookMs <= TAKEOVER_LIMIT_MS, `another one led after ${seconds(tookMs)}`);
      return `after ${seconds(tookMs)}`;
    },
  },
};

export const scenes: readonly Scene[] = Object.entries(told).map(([name, scene]) => ({ name, ...scene }));

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;
