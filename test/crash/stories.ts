import type { ChainGenerator } from '../../src/devnet/index.js';
import { eventually } from '../support/program.js';
import type { Program } from '../support/program.js';
import { ScrapedMetrics } from '../support/scrapedMetrics.js';
import type { Dice } from '../simulation/Dice.js';
import { failpointOf } from './failpoints.js';
import type { Failpoint, StoryName } from './failpoints.js';
import { demand } from '../support/campaign.js';
import { FIRST_HEIGHT, LAST_HEIGHT } from './Judge.js';
import { planOf } from './Lane.js';
import type { DaemonSettings, Lane } from './Lane.js';
import type { CrashPlan } from './Steps.js';
import { Witness } from './Witness.js';

/** One store, from an empty or a filled directory through one crash or several. Answers how many there were. */
export type Story = (lane: Lane, dataDir: string, dice: Dice) => Promise<number>;

/** Far enough down that the deletions take several batches. */
const DEEP_REWIND_MAX = 30;

/** Settings under which the line works differently, though the store may not. */
export function anySettings(dice: Dice): DaemonSettings {
  return {
    window: String(dice.pick([4, 8, 16, 64])),
    'requester.backoffMaxMs': '1000',
    ...(dice.chance(0.4) ? { 'edi.enabled': 'false' } : {}),
  };
}

/** Lets a process die at a step; `false` when it ended without having taken it so often. */
async function dies(lane: Lane, program: Program, witness: Witness): Promise<boolean> {
  const code = await lane.end(program, witness);
  if (code === 'SIGKILL' && witness.end?.testimony === 'dies') return true;
  demand(code === 0, `the process ended with ${code}: ${program.stderr || program.stdout.slice(-2_000)}`);
  return false;
}

/** Lets a process die at a step that it is sure to take. */
async function diesAt({ name }: Failpoint, lane: Lane, program: Program, witness: Witness): Promise<void> {
  demand(await dies(lane, program, witness), `the step ${name} was never taken`);
}

/** Looks at what the crash left, in half of the cases without what had not been synced, and lets it be repaired. */
async function judge(lane: Lane, dataDir: string, witness: Witness, dice: Dice): Promise<void> {
  if (dice.chance(0.5)) lane.losePower(dataDir, witness, dice);
  const found = await lane.examine(dataDir, witness);
  await lane.recover(dataDir, found, anySettings(dice));
}

/** From nothing to the crash. */
async function start(failpoint: Failpoint, lane: Lane, dataDir: string, dice: Dice): Promise<number> {
  lane.haveLateCollections();
  const witness = new Witness();
  // Each source has steps of its own.
  const source = { collection: 'false', 'execution-data': 'true' }[failpoint.name.split('.')[0] ?? ''];
  const settings = { ...anySettings(dice), ...(source === undefined ? {} : { 'edi.enabled': source }) };
  const plan = planOf(failpoint, dice);
  if (await dies(lane, lane.startStepped(dataDir, settings, plan), witness)) {
    await judge(lane, dataDir, witness, dice);
    return 1;
  }
  // A run on this machine takes the step less often.
  const passages = witness.end?.testimony === 'lives' ? witness.end.passages : 0;
  demand(passages > 0, `the step ${failpoint.name} was never taken`);
  return lane.withDirectory(async (again) => {
    const witnessAgain = new Witness();
    const earlier = { ...plan, passage: 1 };
    const hasDied = await dies(lane, lane.startStepped(again, settings, earlier), witnessAgain);
    demand(hasDied, `the step ${failpoint.name} was not taken again`);
    await judge(lane, again, witnessAgain, dice);
    return 1;
  });
}

/** While a store is opened: an empty one, or one that another crash left. */
async function open(failpoint: Failpoint, lane: Lane, dataDir: string, dice: Dice): Promise<number> {
  lane.haveLateCollections();
  const witness = new Witness();
  let crashes = 0;
  if (dice.chance(0.7)) {
    const before = planOf(failpointOf(dice.pick(['commit.under-way', 'commit.told', 'job.done'])), dice);
    if (await dies(lane, lane.startStepped(dataDir, anySettings(dice), before), witness)) crashes += 1;
  }
  const plan = planOf(failpoint, dice);
  if (await dies(lane, lane.startStepped(dataDir, anySettings(dice), plan), witness)) crashes += 1;
  // A store that is complete is opened all the same, but nobody listens then.
  else demand(witness.watermark === LAST_HEIGHT, `the step ${failpoint.name} was never taken`);
  await judge(lane, dataDir, witness, dice);
  return crashes;
}

/** While it ends in order, with a batch in hand or, at its stop height, without. */
async function stop(failpoint: Failpoint, lane: Lane, dataDir: string, dice: Dice): Promise<number> {
  lane.haveLateCollections();
  const witness = new Witness();
  const isAsked = failpoint.name.startsWith('stop.commit') || dice.chance(0.6);
  const plan: CrashPlan = {
    ...planOf(failpoint, dice),
    ...(isAsked ? { stopAtCommit: dice.whole(1, 4) } : {}),
  };
  await diesAt(failpoint, lane, lane.startStepped(dataDir, anySettings(dice), plan), witness);
  await judge(lane, dataDir, witness, dice);
  return 1;
}

/** While the command rewinds: either nothing has happened, or everything above the target is gone. */
async function rewind(failpoint: Failpoint, lane: Lane, dataDir: string, dice: Dice): Promise<number> {
  lane.fill(dataDir);
  const to = dice.whole(0, failpoint.name.startsWith('rewind.batch') ? DEEP_REWIND_MAX : LAST_HEIGHT - 1);
  const witness = new Witness();
  const plan = planOf(failpoint, dice);
  const passage = to <= DEEP_REWIND_MAX ? plan.passage : 1;
  await diesAt(failpoint, lane, lane.rewindStepped(dataDir, to, { ...plan, passage }), witness);
  if (dice.chance(0.5)) lane.losePower(dataDir, witness, dice);
  const found = await lane.examine(dataDir, new Witness());
  const isIntended = witness.writes.includes('rewind.intent');
  const isUnderWay = failpoint.name === 'rewind.intent.under-way';
  const allowed = isIntended ? [to] : isUnderWay ? [to, LAST_HEIGHT] : [LAST_HEIGHT];
  demand(
    found.watermark !== undefined && allowed.includes(found.watermark),
    `the watermark is ${found.watermark} after a rewind from ${LAST_HEIGHT} to ${to}`,
  );
  await lane.recover(dataDir, found, anySettings(dice));
  return 1;
}

/** While a start finishes a rewind that was cut off. */
async function reopen(failpoint: Failpoint, lane: Lane, dataDir: string, dice: Dice): Promise<number> {
  lane.haveLateCollections();
  lane.fill(dataDir);
  const to = dice.whole(0, DEEP_REWIND_MAX);
  const before = planOf(failpointOf(dice.pick(['rewind.intent.durable', 'rewind.batch.handed'])), dice);
  const witness = new Witness();
  const rewinding = lane.rewindStepped(dataDir, to, { ...before, passage: 1 });
  demand(await dies(lane, rewinding, witness), 'the rewind was not cut off');
  const reopening = lane.startStepped(dataDir, anySettings(dice), planOf(failpoint, dice));
  await diesAt(failpoint, lane, reopening, witness);
  if (dice.chance(0.5)) lane.losePower(dataDir, witness, dice);
  const found = await lane.examine(dataDir, new Witness());
  demand(found.watermark === to, `the watermark is ${found.watermark} after a rewind to ${to}`);
  await lane.recover(dataDir, found, anySettings(dice));
  return 2;
}

/**
 * A block off the chain is complete, and durable above a gap, before its child gives it away: the line is closed, what
 * stands above the watermark is forgotten, and a new line begins.
 */
async function anew(failpoint: Failpoint, lane: Lane, dataDir: string, dice: Dice): Promise<number> {
  const { node, chain } = lane.devnet;
  const { gap, lie } = lieAboveGap(chain, dice.whole(15, 60));
  const witness = new Witness();
  node.head.set(lie);
  // What cannot be had in one way is soon had in the other.
  const ways = ['GetFullCollectionByID', 'GetCollectionByID'] as const;
  node.setFaults([
    ...ways.map(
      (method) => ({ method, fromHeight: gap, toHeight: gap, fault: 'error', code: 'UNAVAILABLE' }) as const,
    ),
    { method: 'SubscribeBlocksFromStartHeight', fromHeight: lie, toHeight: lie, times: 1, fault: 'orphaned' },
    // The head confirms it: else it would be found out before it is handed out.
    { method: 'SubscribeBlockDigestsFromLatest', fromHeight: lie, toHeight: lie, fault: 'orphaned' },
    { method: 'GetLatestBlockHeader', fromHeight: lie, toHeight: lie, fault: 'orphaned' },
  ]);
  const settings = { ...anySettings(dice), window: '64', 'edi.enabled': 'false' };
  const program = lane.startStepped(dataDir, settings, planOf(failpoint, dice));
  const ended = diesAt(failpoint, lane, program, witness);
  ended.catch(() => undefined);
  try {
    await allButTheGap(program, gap, lie);
  } finally {
    node.head.set(LAST_HEIGHT);
  }
  await ended;
  if (dice.chance(0.5)) lane.losePower(dataDir, witness, dice);
  const found = await lane.examine(dataDir, witness, { mayLie: true });
  // What was durable above the watermark may have gone with the lie.
  const isDurable = (height: number): boolean => height <= (found.watermark ?? 0);
  await lane.recover(dataDir, { ...found, isDurable }, anySettings(dice));
  return 1;
}

/** A height with collections, and some way above it one whose block off the chain has none: it is complete at once. */
function lieAboveGap(chain: ChainGenerator, from: number): { readonly gap: number; readonly lie: number } {
  let gap = from;
  while (chain.block(gap).collections.length === 0) gap += 1;
  let lie = gap + 10;
  while (chain.block(lie, 'orphan').collections.length > 0) lie += 1;
  return { gap, lie };
}

/** Resolves when everything up to the lie is durable, the gap alone excepted. */
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

/** While blocks are proven that were stored without: each has its proof, or counts as unproven, and the rest follows. */
async function prove(failpoint: Failpoint, lane: Lane, dataDir: string, dice: Dice): Promise<number> {
  demand(
    (await lane.startShipped(dataDir, { 'proof.mode': 'off' }).exited) === 0,
    'the store was not filled',
  );
  const witness = new Witness();
  // At its stop height the process would end at once.
  const settings = { ...anySettings(dice), stopHeight: String(LAST_HEIGHT + 1) };
  await diesAt(failpoint, lane, lane.startStepped(dataDir, settings, planOf(failpoint, dice)), witness);
  if (dice.chance(0.5)) lane.losePower(dataDir, witness, dice);
  const found = await lane.examine(dataDir, witness, { mayBeUnproven: true });
  demand(found.watermark === LAST_HEIGHT, `the watermark is ${found.watermark} while proofs are added`);
  await lane.recover(dataDir, found, settings, allIsProven);
  return 1;
}

/** Resolves once nothing is unproven; the process goes on for ever, and is told to stop. */
async function allIsProven(program: Program): Promise<void> {
  await eventually(async () => (await scrape(program)).value('unproven_heights') === 0);
  program.child.kill('SIGTERM');
}

async function scrape(program: Program): Promise<ScrapedMetrics> {
  const [, port = ''] = await program.sees(/"metrics":\{[^}]*"port":(\d+)[^\n]*"msg":"listening"/);
  return new ScrapedMetrics(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
}

const stories: Readonly<
  Record<StoryName, (failpoint: Failpoint, ...rest: Parameters<Story>) => Promise<number>>
> = { start, open, stop, rewind, reopen, anew, prove };

/** The story in which a step is taken. */
export function storyAt(failpoint: Failpoint): Story {
  return (lane, dataDir, dice) => stories[failpoint.story](failpoint, lane, dataDir, dice);
}
