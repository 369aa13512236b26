import type { Program } from '../support/program.js';
import { demand } from '../support/campaign.js';
import { LAST_HEIGHT } from './Judge.js';
import type { Lane } from './Lane.js';
import { anySettings, judge } from './stories.js';
import type { Scene, Story } from './stories.js';
import { Witness } from './Witness.js';

const start: Story = async (scene) => {
  scene.lane.haveLateCollections();
  const crashes = await killAnywhere(scene);
  await judge(scene);
  return crashes;
};

const chain: Story = async (scene) => {
  const { lane, dataDir, witness } = scene;
  lane.haveLateCollections();
  let crashes = 0;
  for (let turn = 0; turn < 3; turn += 1) {
    await lane.examine(dataDir, witness);
    crashes += await killAnywhere(scene);
  }
  await judge(scene);
  return crashes;
};

/** Killed before it has stopped. */
const stop: Story = async (scene) => {
  const { lane, dataDir, dice } = scene;
  lane.haveLateCollections();
  const program = lane.startShipped(dataDir, anySettings(dice));
  await program.sees(/"msg":"starting"/);
  await pause(lane.anyInstantMs(dice));
  program.child.kill('SIGTERM');
  await pause(dice.magnitude(0.1, 150));
  const crashes = await kill(scene, program);
  await judge(scene);
  return crashes;
};

const rewind: Story = async (scene) => {
  const { lane, dataDir, dice } = scene;
  lane.fill(dataDir);
  const to = dice.whole(0, LAST_HEIGHT - 1);
  const program = lane.rewindShipped(dataDir, to);
  await pause(lane.anyInstantMs(dice));
  const crashes = await kill(scene, program);
  await judge(scene, { witness: new Witness(), at: [to, LAST_HEIGHT] });
  return crashes;
};

/** The shipped program is killed; so often for each round of every failpoint. */
export const randomKills = [
  { name: 'random.start', step: 'any instant of a run', story: start, share: 8 },
  { name: 'random.chain', step: 'any instant of three runs, one upon the other', story: chain, share: 2 },
  { name: 'random.stop', step: 'any instant of a graceful stop', story: stop, share: 3 },
  { name: 'random.rewind', step: 'any instant of a rewind', story: rewind, share: 3 },
];

async function killAnywhere({ lane, dataDir, dice, witness }: Scene): Promise<number> {
  const program = lane.startShipped(dataDir, anySettings(dice));
  const ended = lane.end(program, witness);
  ended.catch(() => undefined);
  await program.sees(/"msg":"starting"/);
  await pause(lane.anyInstantMs(dice));
  program.child.kill('SIGKILL');
  return countOf(lane, await ended, program);
}

async function kill({ lane, witness }: Scene, program: Program): Promise<number> {
  program.child.kill('SIGKILL');
  return countOf(lane, await lane.end(program, witness), program);
}

/** It may have ended just before. */
function countOf(lane: Lane, code: number | string, program: Program): number {
  lane.noteKill(code === 'SIGKILL');
  if (code === 'SIGKILL') return 1;
  // A signal that comes when nobody listens any more, at the very end of a run, ends it as signals do.
  demand(code === 0 || code === 'SIGTERM', `the process ended with ${code}: ${program.stderr}`);
  return 0;
}

/** An instant is drawn, not awaited: nothing depends on what has happened by then. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
