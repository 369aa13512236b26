import type { Program } from '../support/program.js';
import type { Dice } from '../simulation/Dice.js';
import { demand } from '../support/campaign.js';
import { LAST_HEIGHT } from './Judge.js';
import type { Lane } from './Lane.js';
import { anySettings } from './stories.js';
import type { Story } from './stories.js';
import { Witness } from './Witness.js';

/** The shipped program is killed at any instant. */
const randomStart: Story = async (lane, dataDir, dice) => {
  lane.haveLateCollections();
  const witness = new Witness();
  const crashes = await killAnywhere(lane, dataDir, dice, witness);
  await lane.recover(dataDir, await lane.examine(dataDir, witness), anySettings(dice));
  return crashes;
};

/** Killed at any instant, started again, killed again, … */
const randomChain: Story = async (lane, dataDir, dice) => {
  lane.haveLateCollections();
  const witness = new Witness();
  let crashes = 0;
  let found = await lane.examine(dataDir, witness);
  for (let turn = 0; turn < 3; turn += 1) {
    crashes += await killAnywhere(lane, dataDir, dice, witness);
    found = await lane.examine(dataDir, witness);
  }
  await lane.recover(dataDir, found, anySettings(dice));
  return crashes;
};

/** Told to stop at any instant, and killed before it has. */
const randomStop: Story = async (lane, dataDir, dice) => {
  lane.haveLateCollections();
  const witness = new Witness();
  const program = lane.startShipped(dataDir, anySettings(dice));
  await program.sees(/"msg":"starting"/);
  await pause(lane.anyInstantMs(dice));
  program.child.kill('SIGTERM');
  await pause(dice.magnitude(0.1, 150));
  const crashes = await kill(lane, program, witness);
  await lane.recover(dataDir, await lane.examine(dataDir, witness), anySettings(dice));
  return crashes;
};

/** The rewind command is killed at any instant. */
const randomRewind: Story = async (lane, dataDir, dice) => {
  lane.fill(dataDir);
  const to = dice.whole(0, LAST_HEIGHT - 1);
  const program = lane.rewindShipped(dataDir, to);
  await pause(lane.anyInstantMs(dice));
  const crashes = await kill(lane, program, new Witness());
  const found = await lane.examine(dataDir, new Witness());
  demand(
    found.watermark === to || found.watermark === LAST_HEIGHT,
    `the watermark is ${found.watermark} after a rewind from ${LAST_HEIGHT} to ${to}`,
  );
  await lane.recover(dataDir, found, anySettings(dice));
  return crashes;
};

/** Kills at random instants, and how many of them there are for each round of every failpoint. */
export const randomKills: readonly {
  readonly name: string;
  readonly step: string;
  readonly story: Story;
  readonly share: number;
}[] = [
  { name: 'random.start', step: 'any instant of a run', story: randomStart, share: 8 },
  {
    name: 'random.chain',
    step: 'any instant of three runs, one upon the other',
    story: randomChain,
    share: 2,
  },
  { name: 'random.stop', step: 'any instant of a graceful stop', story: randomStop, share: 3 },
  { name: 'random.rewind', step: 'any instant of a rewind', story: randomRewind, share: 3 },
];

async function killAnywhere(lane: Lane, dataDir: string, dice: Dice, witness: Witness): Promise<number> {
  const program = lane.startShipped(dataDir, anySettings(dice));
  const ended = lane.end(program, witness);
  ended.catch(() => undefined);
  await program.sees(/"msg":"starting"/);
  await pause(lane.anyInstantMs(dice));
  program.child.kill('SIGKILL');
  return countOf(lane, await ended, program);
}

async function kill(lane: Lane, program: Program, witness: Witness): Promise<number> {
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
