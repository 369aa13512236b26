import type { FaultRule } from '../../../src/devnet/index.js';
import { asAdmin, atEnd, devnetForTest, ownServer, scratchDirectory } from '../../support/daemons.js';
import { storeFlags } from '../../support/daemons.js';
import { chain, succeeds, type Scenes } from '../Stage.js';
import { bodies } from './nodes.js';

const HISTORY = 400;
const LOST_HEIGHT = 200;

const backfill = (dataDir: string, ...words: readonly string[]): Promise<void> =>
  succeeds('backfill', ...words, ...storeFlags(dataDir));

export const sharedScenes: Scenes = {
  'history is disputed': async (stage) => {
    const lie = { fault: 'wrong_parent', fromHeight: LOST_HEIGHT, toHeight: LOST_HEIGHT } as const;
    const faults: FaultRule[] = [
      { method: 'GetBlockByHeight', ...lie },
      { method: 'SubscribeBlocks*', ...lie },
    ];
    const devnet = await devnetForTest({ ...chain, profile: 'empty', startHead: HISTORY });
    const dataDir = scratchDirectory();
    const instance = await stage.start(devnet, dataDir);
    await stage.daemon(instance).ready();
    // The block that is lied about has to link to one that is indexed.
    await backfill(dataDir, 'plan', '--from', '0', '--to', String(LOST_HEIGHT - 1));
    await stage
      .daemon(instance)
      .scrapeUntil(
        (metrics) =>
          metrics.value('backfill_missing_heights') === 0 && metrics.value('covered_heights') >= LOST_HEIGHT,
      );
    await stage.provoke({
      alerts: ['FlowIndexerRangesDisputed'],
      fault: 'history is planned of which the node gives a block with another parent',
      strike: async () => {
        devnet.node.setFaults(faults);
        await backfill(dataDir, 'plan', '--from', String(LOST_HEIGHT));
      },
      // It fails five times, with pauses that double.
      limitMs: 240_000,
      repaired: 'it gives the right one; `backfill redrive`',
      fix: async () => {
        devnet.node.setFaults([]);
        await backfill(dataDir, 'redrive');
      },
    });
  },
  'history is held up': async (stage) => {
    const before = { fromHeight: 0, toHeight: HISTORY - 50 };
    const refused = { fault: 'error', code: 'INTERNAL', ...before } as const;
    const faults = bodies.map((method): FaultRule => ({ method, ...refused }));
    const devnet = await devnetForTest({ ...chain, startHead: HISTORY, faults });
    const dataDir = scratchDirectory();
    const instance = await stage.start(devnet, dataDir, ['--no-edi', '--requester-backoff-max-ms', '1000']);
    await stage.daemon(instance).ready();
    await stage.provoke({
      alerts: ['FlowIndexerHistoryHeldUp'],
      fault: 'history is planned whose collections the node refuses',
      strike: () => backfill(dataDir, 'plan', '--from', '0'),
      repaired: 'it gives them',
      fix: () => devnet.node.setFaults([]),
    });
  },
  'several processes on one database': async (stage) => {
    const server = await ownServer();
    atEnd(() => server.close());
    await asAdmin(server.url, 'CREATE DATABASE alerts');
    const url = new URL(server.url);
    url.pathname = '/alerts';
    const devnet = await devnetForTest({ ...chain, blockIntervalMs: 500, paused: false });
    const store = ['--store', url.href];
    const leader = await stage.start(devnet, scratchDirectory(), [...store, '--roles', 'live,backfill']);
    await stage.daemon(leader).ready();
    const reader = await stage.start(devnet, scratchDirectory(), [...store, '--roles', 'api,backfill']);
    const worker = await stage.start(devnet, scratchDirectory(), [...store, '--roles', 'backfill']);
    for (const instance of [reader, worker]) await stage.daemon(instance).ready();
    await stage.provoke({
      alerts: ['FlowIndexerWorkersDead'],
      fault: 'one of three processes on a database is killed (SIGKILL)',
      strike: () => stage.daemon(worker).program.stop('SIGKILL'),
      repaired: 'it is started again',
      fix: () => stage.restart(worker),
    });
    await stage.provoke({
      alerts: ['FlowIndexerLeaderLost'],
      fault: 'the only one with the role `live` is stopped',
      strike: () => stage.daemon(leader).program.stop(),
      repaired: 'it is started again',
      fix: () => stage.restart(leader),
    });
    await stage.provoke({
      alerts: ['FlowIndexerDatabaseUnreachable'],
      fault: 'PostgreSQL is stopped (immediate)',
      strike: () => server.kill(),
      repaired: 'it is started again',
      fix: () => server.start(),
    });
  },
};
