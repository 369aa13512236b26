import { join } from 'node:path';
import { devnetForTest, scratchDirectory, startArguments } from '../../support/daemons.js';
import { SmallDisk } from '../SmallDisk.js';
import { chain, pause, succeeds, type Scenes, type Stage } from '../Stage.js';

const MIB = 1024 ** 2;
/** A commit that takes so long is slow, and does not hang. */
const SLOW_MS = 1_500;
/** Long enough for the alert to be sure. */
const SLOW_TIMES = 20;
/** Heights that take a minute to verify. */
const MANY = 40_000;

async function onDisk(stage: Stage): Promise<{ readonly disk: SmallDisk; readonly instance: string }> {
  const disk = new SmallDisk();
  const devnet = await devnetForTest({ ...chain, blockIntervalMs: 200, paused: false });
  const instance = await stage.start(devnet, join(disk.directory, 'store'), ['--start-height', '0']);
  await stage.daemon(instance).ready();
  return { disk, instance };
}

export const diskScenes: Scenes = {
  'disk hangs': async (stage) => {
    const { disk, instance } = await onDisk(stage);
    await stage.provoke({
      alerts: ['FlowIndexerStoreStalled'],
      fault: 'the disk hangs (`fsfreeze`)',
      strike: () => disk.freeze(),
      repaired: 'it goes on',
      fix: () => disk.thaw(),
    });
    await stage.provoke({
      alerts: ['FlowIndexerStopping'],
      fault: 'the daemon is told to stop (SIGTERM) while the disk hangs',
      strike: async () => {
        disk.freeze();
        await pause(500);
        stage.daemon(instance).program.child.kill('SIGTERM');
      },
      repaired: 'the disk goes on: the process ends',
      fix: async () => {
        disk.thaw();
        await stage.daemon(instance).program.exited;
      },
    });
  },
  'disk is slow': async (stage) => {
    const { disk } = await onDisk(stage);
    await stage.provoke({
      alerts: ['FlowIndexerCommitsSlow'],
      fault: `the disk hangs for ${SLOW_MS / 1_000} s, again and again (\`fsfreeze\`)`,
      strike: async () => {
        for (let time = 0; time < SLOW_TIMES; time += 1) {
          disk.freeze();
          await pause(SLOW_MS);
          disk.thaw();
          await pause(100);
        }
      },
      repaired: 'it is quick',
    });
  },
  'disk fills': async (stage) => {
    const { disk } = await onDisk(stage);
    let isFilling = true;
    await stage.provoke({
      alerts: ['FlowIndexerDiskFilling'],
      fault: 'something writes 20 MiB a second to the disk of the store, of which 4 GiB were free',
      strike: () => {
        void (async () => {
          while (isFilling) {
            disk.fill(20 * MIB);
            await pause(1_000);
          }
        })();
      },
      repaired: 'it ends, and is deleted',
      fix: () => {
        isFilling = false;
        disk.empty();
      },
    });
    await stage.provoke({
      alerts: ['FlowIndexerDiskLow'],
      fault: '300 MiB of 4 GiB are left on the disk of the store',
      strike: () => disk.fillUpTo(300 * MIB),
      repaired: 'there is room again',
      fix: () => disk.empty(),
    });
  },
  'scrub is overdue': async (stage) => {
    const devnet = await devnetForTest({ ...chain, startHead: MANY });
    const dataDir = scratchDirectory();
    const all = ['--start-height', '0', '--stop-height', String(MANY)];
    await succeeds(...startArguments(devnet, dataDir, ...all));
    await stage.provoke({
      alerts: ['FlowIndexerScrubOverdue'],
      fault: 'verifying all heights takes longer than the pace says, which this machine cannot keep',
      strike: async () => {
        await stage.start(devnet, dataDir, ['--scrub-bytes-per-second', '1000000000']);
      },
      repaired: 'it comes to its end',
    });
  },
};
