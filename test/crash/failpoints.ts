export type StoryName = 'start' | 'open' | 'stop' | 'rewind' | 'reopen' | 'anew' | 'prove';

export interface Failpoint {
  readonly name: string;
  readonly story: StoryName;
  /** The step, in a line: what is done already, and what is not. */
  readonly step: string;
  /** A run dies at the n-th time the step is taken, n from 1 to this. */
  readonly passagesMax: number;
  /** The step is under way: the process lives on for up to so long, in its other threads. 0: it has nothing under way. */
  readonly underWayMaxMs: number;
}

/** A step by its name; how often it may be passed, and for how long it is under way. */
type Step = readonly [name: string, step: string, passagesMax?: number | undefined, underWayMaxMs?: number];

/** A write of the database, from the moment its batch is complete until the store hears that it is on disk. */
const write = (name: string, what: string, passagesMax = 1): readonly Step[] => [
  [`${name}.handed`, `${what} is put together, LevelDB has nothing of it`, passagesMax],
  [`${name}.under-way`, `LevelDB has ${what}, and has not answered`, passagesMax, 3],
  [`${name}.durable`, `${what} is synced, the store has not heard of it`, passagesMax],
];

const COMMITS = 12;
/** Batches in which the whole store is proven, at least. */
const PROOFS = 8;

/** By their stories, in the order in which a daemon takes them. */
const steps: Readonly<Record<StoryName, readonly Step[]>> = {
  open: [
    ['open.called', 'the store is to be opened'],
    ['open.under-way', 'LevelDB makes its files, or replays its log', 1, 25],
    ['open.recovered', 'LevelDB is open, the store has read nothing of it: between open and repair'],
    ['open.read', 'the store is open, nobody uses it'],
    ['listening', 'both servers listen, the daemon record is written'],
  ],
  start: [
    ['identity.received', 'the node says who it is', 2],
    ['head.received', 'the node tells its head'],
    ['begin.called', 'the first height is decided'],
    ...write('begin', 'the meta record'),
    ['begin.told', 'the store begins, nothing is asked for'],
    ['block.received', 'a block is in hand, not linked', 120],
    ['collection.asked', 'a collection is about to be asked for', 60],
    ['collection.received', 'a collection is in hand, not checked', 60],
    [
      'collection.received-during-write',
      'a collection is in hand while the batch before it is being written',
      10,
    ],
    ['execution-data.received', 'the execution data of a block are in hand, not checked', 60],
    ['commit.called', 'a source has won, the other is cancelled; nothing is indexed', COMMITS],
    ['commit.filling', 'a batch is half put together', 900],
    ...write('commit', 'the batch', COMMITS),
    ['commit.told', 'the watermark has moved, the indexer has not heard of it', COMMITS],
    ['commit.announced', 'the batch is durable, no job is', COMMITS],
    ['job.indexed', 'a height is indexed, its job is not done', 100],
    ['job.done', 'a job is done, the queue has not published its progress', 100],
  ],
  stop: [
    ['stop.asked', 'the daemon is told to stop'],
    ...write('stop.commit', 'the last batch'),
    ['stop.commit.told', 'the last batch is in, nothing is closed'],
    ['stop.closing', 'all but the store is closed'],
    ['stop.close.under-way', 'LevelDB closes, and opens once more to tidy up', 1, 25],
    ['stop.closed', 'everything is closed, the process lives'],
  ],
  rewind: [
    ['rewind.called', 'the store is open and is to be rewound'],
    ...write('rewind.intent', 'the intent'),
    ...write('rewind.batch', 'a batch of deletions, or the end of the intent', 3),
    ['rewind.told', 'the store is rewound and open'],
  ],
  reopen: write('reopen.batch', 'a batch of the interrupted rewind', 2),
  anew: [
    ['anew.called', 'indexing is to begin anew, the line is closed'],
    ...write('anew.intent', 'the intent to forget the lie'),
    ...write('anew.batch', 'a batch of the forgetting', 2),
    ['anew.told', 'the lie is forgotten, no line runs'],
  ],
  prove: [
    ['prove.called', 'proofs are in hand, not checked', PROOFS],
    ...write('prove', 'blocks with their proofs, and what is unproven still', PROOFS),
    ['prove.told', 'the proofs are in, more are to come', PROOFS],
  ],
};

export const failpoints: readonly Failpoint[] = (Object.keys(steps) as StoryName[]).flatMap((story) =>
  steps[story].map(([name, step, passagesMax = 1, underWayMaxMs = 0]) => ({
    name,
    story,
    step,
    passagesMax,
    underWayMaxMs,
  })),
);

export function failpointOf(name: string): Failpoint {
  const found = failpoints.find((each) => each.name === name);
  if (found === undefined) throw new Error(`there is no failpoint ${name}`);
  return found;
}
