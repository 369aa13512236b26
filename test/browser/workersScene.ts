import type { StatusDocument } from '../../src/api/index.js';
import type { FaultRule } from '../../src/devnet/index.js';
import { atEnd } from '../support/cleanup.js';
import { startPostgres } from '../support/postgresServer.js';
import { eventually, runProgram, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';
import type { Chromium } from './Chromium.js';
import type { SceneOptions } from './scene.js';
import { StatusPage } from './StatusPage.js';

const HEAD = 9_000;

/** Several processes on one database: one leads, others fill in, one has died. */
export async function workers(browser: Chromium, options: SceneOptions): Promise<void> {
  const postgres = await startPostgres();
  atEnd(() => postgres.close());
  const url = await postgres.database();
  const slow: FaultRule = { method: 'GetBlockByHeight', fault: 'latency', delayMs: 200 };
  const devnet = await devnetForTest({
    ...{ seed: 13, startHead: HEAD, sealedLag: 0, paused: true, streams: false, executionData: false },
    faults: [slow],
  });
  const flags = ['--store', url, '--start-height', String(HEAD), '--backfill-parallel-ranges', '1'];
  const start = (): Promise<RunningDaemon> =>
    startDaemon(startArguments(devnet, scratchDirectory(), ...flags, '--backfill-window', '4'));
  const first = await start();
  await first.reaches(HEAD);
  const [second] = [await start(), await start()];
  const plan = ['backfill', 'plan', '--from', '0', '--network', 'devnet', '--store', url];
  await runProgram([...plan, '--data-dir', scratchDirectory()]);
  const until = (holdsTrue: (workers: NonNullable<StatusDocument['cluster']>['workers']) => boolean) =>
    eventually(async () => {
      const { cluster } = await first.status();
      return holdsTrue(cluster?.workers ?? []) ? true : undefined;
    });
  await until((all) => all.filter(({ busyWith }) => busyWith.length > 0).length === 3);
  await second.program.stop('SIGKILL');
  await until((all) => all.some(({ alive }) => !alive));
  const page = await StatusPage.open(browser, first.apiUrl, options);
  await page.says('Workers', '2 of 3 alive; this one follows the chain', 'silent', 'Fills in');
  await page.isFine('workers');
  page.neverComplained(first.apiUrl);
}
