import { setTimeout as pause } from 'node:timers/promises';
import type { ChainGenerator } from '../../src/devnet/index.js';
import { eventually, ScrapedMetrics, type Program } from '../support/index.js';
import { Dice } from '../simulation/Dice.js';
import { failpointOf, type Failpoint, type StoryName } from './failpoints.js';
import { demand } from '../support/campaign.js';
import { FIRST_HEIGHT, LAST_HEIGHT, type Doubts } from './Judge.js';
import { planOf, type DaemonSettings, type Lane } from './Lane.js';
import type { CrashPlan } from './Steps.js';
import { Witness } from './Witness.js';

interface Scene {
  readonly lane: Lane;
  readonly dataDir: string;
  readonly dice: Dice;
  readonly witness: Witness;
}

/** From there through one crash or several. Answers how many there were. */
type Story = (scene: Scene) => Promise<number>;

/** Far enough down that the deletions take several batches. */
const DEEP_REWIND_MAX = 30;

/** Settings under which the line works differently, though the store may not. */
function anySettings(dice: Dice): DaemonSettings {
  return {
    window: String(dice.pick([4, 8, 16, 64])),
    'requester.backoffMaxMs': '1000',
    ...(dice.chance(0.4) ? { 'edi.enabled': 'false' } : {}),
  };
}

/** Lets a process die at a step; `false` when it ended without having taken it so often. */
async function dies({ lane, witness }: Scene, program: Program): Promise<boolean> {
  const code = await lane.end(program, witness);
  if (code === 'SIGKILL' && witness.end?.testimony === 'dies') return true;
  demand(code === 0, `the process ended with ${code}: ${program.stderr || program.stdout.slice(-2_000)}`);
  return false;
}

async function diesAt({ name }: Failpoint, scene: Scene, program: Program): Promise<void> {
  demand(await dies(scene, program), `the step ${name} was never taken`);
}

interface Judging {
  /** What the store must hold to: what its processes said of it, where nothing else is given. */
  readonly witness?: Witness;
  readonly doubts?: Doubts;
  readonly at?: readonly number[];
  readonly settings?: DaemonSettings;
  readonly stop?: (program: Program) => Promise<void>;
}

/** Looks at what a crash left, and lets it be repaired. */
async function judge(scene: Scene, judging: Judging = {}): Promise<void> {
  const { lane, dataDir, dice } = scene;
  const { at, doubts = {}, settings, stop, witness = scene.witness } = judging;
  const found = await lane.examine(dataDir, witness, doubts);
  const { watermark = -1 } = found;
  if (at !== undefined)
    demand(at.includes(watermark), `the watermark is ${watermark}, and not ${at.join(' or ')}`);
  // What was durable above the watermark may have gone with a lie.
  const isDurable = (height: number): boolean => height <= Math.max(0, watermark);
  const kept = doubts.mayLie === true ? { ...found, isDurable } : found;
  await lane.recover(dataDir, kept, settings ?? anySettings(dice), stop);
}

/** Likewise, in half of the cases without what had not been synced. */
async function judgeLosses(scene: Scene, judging?: Judging): Promise<void> {
  const { lane, dataDir, dice, witness } = scene;
  if (dice.chance(0.5)) lane.losePower(dataDir, witness, dice);
  await judge(scene, judging);
}

const stories: Readonly<Record<StoryName, (scene: Scene, failpoint: Failpoint) => Promise<number>>> = {
  async start(scene, failpoint) {
    const { lane, dataDir, dice, witness } = scene;
    lane.haveLateCollections();
    // Each source has steps of its own.
    const source = { collection: 'false', 'execution-data': 'true' }[failpoint.name.split('.')[0] ?? ''];
    const settings = { ...anySettings(dice), ...(source === undefined ? {} : { 'edi.enabled': source }) };
    const plan = planOf(failpoint, dice);
    if (await dies(scene, lane.startStepped(dataDir, settings, plan))) {
      await judgeLosses(scene);
      return 1;
    }
    // A run on this machine takes the step less often.
    const passages = witness.end?.testimony === 'lives' ? witness.end.passages : 0;
    demand(passages > 0, `the step ${failpoint.name} was never taken`);
    return lane.withDirectory(async (again) => {
      const sceneAgain = { ...scene, dataDir: again, witness: new Witness() };
      await diesAt(failpoint, sceneAgain, lane.startStepped(again, settings, { ...plan, passage: 1 }));
      await judgeLosses(sceneAgain);
      return 1;
    });
  },

  /** An empty store, or one that another crash left. */
  async open(scene, failpoint) {
    const { lane, dataDir, dice, witness } = scene;
    lane.haveLateCollections();
    let crashes = 0;
    if (dice.chance(0.7)) {
      const before = planOf(failpointOf(dice.pick(['commit.under-way', 'commit.told', 'job.done'])), dice);
      if (await dies(scene, lane.startStepped(dataDir, anySettings(dice), before))) crashes += 1;
    }
    const plan = planOf(failpoint, dice);
    if (await dies(scene, lane.startStepped(dataDir, anySettings(dice), plan))) crashes += 1;
    // A store that is complete is opened all the same, but nobody listens then.
    else demand(witness.watermark === LAST_HEIGHT, `the step ${failpoint.name} was never taken`);
    await judgeLosses(scene);
    return crashes;
  },

  /** While it ends in order, with a batch in hand or, at its stop height, without. */
  async stop(scene, failpoint) {
    const { lane, dataDir, dice } = scene;
    lane.haveLateCollections();
    const isAsked = failpoint.name.startsWith('stop.commit') || dice.chance(0.6);
    const plan: CrashPlan = {
      ...planOf(failpoint, dice),
      ...(isAsked ? { stopAtCommit: dice.whole(1, 4) } : {}),
    };
    await diesAt(failpoint, scene, lane.startStepped(dataDir, anySettings(dice), plan));
    await judgeLosses(scene);
    return 1;
  },

  /** By the command: either nothing has happened, or everything above the target is gone. */
  async rewind(scene, failpoint) {
    const { lane, dataDir, dice, witness } = scene;
    lane.fill(dataDir);
    const to = dice.whole(0, failpoint.name.startsWith('rewind.batch') ? DEEP_REWIND_MAX : LAST_HEIGHT - 1);
    const plan = planOf(failpoint, dice);
    const passage = to <= DEEP_REWIND_MAX ? plan.passage : 1;
    await diesAt(failpoint, scene, lane.rewindStepped(dataDir, to, { ...plan, passage }));
    const isIntended = witness.writes.includes('rewind.intent');
    const isUnderWay = failpoint.name === 'rewind.intent.under-way';
    const at = isIntended ? [to] : isUnderWay ? [to, LAST_HEIGHT] : [LAST_HEIGHT];
    await judgeLosses(scene, { witness: new Witness(), at });
    return 1;
  },

  /** While a start finishes a rewind that was cut off. */
  async reopen(scene, failpoint) {
    const { lane, dataDir, dice } = scene;
    lane.haveLateCollections();
    lane.fill(dataDir);
    const to = dice.whole(0, DEEP_REWIND_MAX);
    const before = planOf(failpointOf(dice.pick(['rewind.intent.durable', 'rewind.batch.handed'])), dice);
    const rewinding = lane.rewindStepped(dataDir, to, { ...before, passage: 1 });
    demand(await dies(scene, rewinding), 'the rewind was not cut off');
    const reopening = lane.startStepped(dataDir, anySettings(dice), planOf(failpoint, dice));
    await diesAt(failpoint, scene, reopening);
    await judgeLosses(scene, { witness: new Witness(), at: [to] });
    return 2;
  },

  /** A block off the chain is durable above a gap before its child gives it away: it is forgotten, and a new line begins. */
  async anew(scene, failpoint) {
    const { lane, dataDir, dice } = scene;
    const { node, chain } = lane.devnet;
    const { gap, lie } = lieAboveGap(chain, dice.whole(15, 60));
    node.head.set(lie);
    const atGap = { fromHeight: gap, toHeight: gap, fault: 'error', code: 'UNAVAILABLE' } as const;
    const atLie = { fromHeight: lie, toHeight: lie, fault: 'orphaned' } as const;
    node.setFaults([
      // What cannot be had in one way is soon had in the other.
      { method: 'GetFullCollectionByID', ...atGap },
      { method: 'GetCollectionByID', ...atGap },
      { method: 'SubscribeBlocksFromStartHeight', times: 1, ...atLie },
      // The head confirms it: else it would be found out before it is handed out.
      { method: 'SubscribeBlockDigestsFromLatest', ...atLie },
      { method: 'GetLatestBlockHeader', ...atLie },
    ]);
    const settings = { ...anySettings(dice), window: '64', 'edi.enabled': 'false' };
    const program = lane.startStepped(dataDir, settings, planOf(failpoint, dice));
    const ended = diesAt(failpoint, scene, program);
    ended.catch(() => undefined);
    try {
      await allButTheGap(program, gap, lie);
    } finally {
      node.head.set(LAST_HEIGHT);
    }
    await ended;
    await judgeLosses(scene, { doubts: { mayLie: true } });
    return 1;
  },

  /** While blocks are proven that were stored without: each has its proof, or counts as unproven, and the rest follows. */
  async prove(scene, failpoint) {
    const { lane, dataDir, dice } = scene;
    const filling = lane.startShipped(dataDir, { 'proof.mode': 'off' });
    demand((await filling.exited) === 0, 'the store was not filled');
    // At its stop height the process would end at once.
    const settings = { ...anySettings(dice), stopHeight: String(LAST_HEIGHT + 1) };
    await diesAt(failpoint, scene, lane.startStepped(dataDir, settings, planOf(failpoint, dice)));
    const doubts = { mayBeUnproven: true };
    await judgeLosses(scene, { doubts, at: [LAST_HEIGHT], settings, stop: stopOnceProven });
    return 1;
  },
};

/** A height with collections, and some way above it one whose block off the chain has none: it is complete at once. */
function lieAboveGap(chain: ChainGenerator, from: number) {
  let gap = from;
  while (chain.block(gap).collections.length === 0) gap += 1;
  let lie = gap + 10;
  while (chain.block(lie, 'orphan').collections.length > 0) lie += 1;
  return { gap, lie };
}

async function allButTheGap(program: Program, gap: number, lie: number): Promise<void> {
  await eventually(async () => {
    const metrics = await scrape(program);
    return (
      metrics.value('latest_indexed_height') === gap - 1 &&
      metrics.value('in_flight_heights') === 1 &&
      metrics.sum('heights_completed_total') === lie - FIRST_HEIGHT
    );
  });
}

/** The process would go on for ever. */
async function stopOnceProven(program: Program): Promise<void> {
  await eventually(async () => (await scrape(program)).value('unproven_heights') === 0);
  program.child.kill('SIGTERM');
}

async function scrape(program: Program): Promise<ScrapedMetrics> {
  const [, port = ''] = await program.sees(/"metrics":\{[^}]*"port":(\d+)[^\n]*"msg":"listening"/);
  return new ScrapedMetrics(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
}

const startAnywhere: Story = async (scene) => {
  scene.lane.haveLateCollections();
  const crashes = await killAnywhere(scene);
  await judge(scene);
  return crashes;
};

const chainAnywhere: Story = async (scene) => {
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

const stopAnywhere: Story = async (scene) => {
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

const rewindAnywhere: Story = async (scene) => {
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
  { name: 'random.start', step: 'any instant of a run', story: startAnywhere, share: 8 },
  {
    name: 'random.chain',
    step: 'any instant of three runs, one upon the other',
    story: chainAnywhere,
    share: 2,
  },
  { name: 'random.stop', step: 'any instant of a graceful stop', story: stopAnywhere, share: 3 },
  { name: 'random.rewind', step: 'any instant of a rewind', story: rewindAnywhere, share: 3 },
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

export function play(lane: Lane, name: string, seed: number): Promise<number> {
  const random = randomKills.find((each) => each.name === name);
  return lane.withDirectory((dataDir) => {
    const scene: Scene = { lane, dataDir, dice: new Dice(seed, name), witness: new Witness() };
    if (random !== undefined) return random.story(scene);
    const failpoint = failpointOf(name);
    return stories[failpoint.story](scene, failpoint);
  });
}
