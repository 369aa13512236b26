/** In which story a step is taken; `stories.ts` tells each of them. */
export type StoryName = 'start' | 'open' | 'stop' | 'rewind' | 'reopen' | 'anew' | 'prove';

/** One step of the daemon at which it may be made to die. */
export interface Failpoint {
  readonly name: string;
  readonly story: StoryName;
  /** The step, in a line: what is done already, and what is not. */
  readonly step: string;
  /** A run dies at the n-th time the step is taken, n from 1 to this. */
  readonly passagesMax: number;
  /**
   * The step was begun and has not been answered: the process lives on, in its other threads, for up to so many
   * milliseconds before it dies. Default 0.
   */
  readonly underWayMaxMs?: number;
}

/** A write of the database, from the moment its batch is complete until the store hears that it is on disk. */
function write(name: string, what: string, story: StoryName, passagesMax: number): Failpoint[] {
  return [
    {
      name: `${name}.handed`,
      story,
      step: `${what} is put together, LevelDB has nothing of it`,
      passagesMax,
    },
    {
      name: `${name}.under-way`,
      story,
      step: `LevelDB has ${what}, and has not answered`,
      passagesMax,
      underWayMaxMs: 3,
    },
    { name: `${name}.durable`, story, step: `${what} is synced, the store has not heard of it`, passagesMax },
  ];
}

const COMMITS = 12;
/** Batches in which the whole store is proven, at least. */
const PROOFS = 8;

/** Every step, in the order in which a daemon takes them. */
export const failpoints: readonly Failpoint[] = [
  // Opening, of an empty directory or behind another crash.
  { name: 'open.called', story: 'open', step: 'the store is to be opened', passagesMax: 1 },
  {
    name: 'open.under-way',
    story: 'open',
    step: 'LevelDB makes its files, or replays its log',
    passagesMax: 1,
    underWayMaxMs: 25,
  },
  {
    name: 'open.recovered',
    story: 'open',
    step: 'LevelDB is open, the store has read nothing of it: between open and repair',
    passagesMax: 1,
  },
  { name: 'open.read', story: 'open', step: 'the store is open, nobody uses it', passagesMax: 1 },
  {
    name: 'listening',
    story: 'open',
    step: 'both servers listen, the daemon record is written',
    passagesMax: 1,
  },

  // The first start.
  { name: 'identity.received', story: 'start', step: 'the node says who it is', passagesMax: 2 },
  { name: 'head.received', story: 'start', step: 'the node tells its head', passagesMax: 1 },
  { name: 'begin.called', story: 'start', step: 'the first height is decided', passagesMax: 1 },
  ...write('begin', 'the meta record', 'start', 1),
  { name: 'begin.told', story: 'start', step: 'the store begins, nothing is asked for', passagesMax: 1 },

  // Catching up.
  { name: 'block.received', story: 'start', step: 'a block is in hand, not linked', passagesMax: 120 },
  {
    name: 'collection.asked',
    story: 'start',
    step: 'a collection is about to be asked for',
    passagesMax: 60,
  },
  {
    name: 'collection.received',
    story: 'start',
    step: 'a collection is in hand, not checked',
    passagesMax: 60,
  },
  {
    name: 'collection.received-during-write',
    story: 'start',
    step: 'a collection is in hand while the batch before it is being written',
    passagesMax: 10,
  },
  {
    name: 'execution-data.received',
    story: 'start',
    step: 'the execution data of a block are in hand, not checked',
    passagesMax: 60,
  },
  {
    name: 'commit.called',
    story: 'start',
    step: 'a source has won, the other is cancelled; nothing is indexed',
    passagesMax: COMMITS,
  },
  { name: 'commit.filling', story: 'start', step: 'a batch is half put together', passagesMax: 900 },
  ...write('commit', 'the batch', 'start', COMMITS),
  {
    name: 'commit.told',
    story: 'start',
    step: 'the watermark has moved, the indexer has not heard of it',
    passagesMax: COMMITS,
  },
  { name: 'commit.announced', story: 'start', step: 'the batch is durable, no job is', passagesMax: COMMITS },
  { name: 'job.indexed', story: 'start', step: 'a height is indexed, its job is not done', passagesMax: 100 },
  {
    name: 'job.done',
    story: 'start',
    step: 'a job is done, the queue has not published its progress',
    passagesMax: 100,
  },

  // A graceful stop, with a batch in hand.
  { name: 'stop.asked', story: 'stop', step: 'the daemon is told to stop', passagesMax: 1 },
  ...write('stop.commit', 'the last batch', 'stop', 1),
  {
    name: 'stop.commit.told',
    story: 'stop',
    step: 'the last batch is in, nothing is closed',
    passagesMax: 1,
  },
  { name: 'stop.closing', story: 'stop', step: 'all but the store is closed', passagesMax: 1 },
  {
    name: 'stop.close.under-way',
    story: 'stop',
    step: 'LevelDB closes, and opens once more to tidy up',
    passagesMax: 1,
    underWayMaxMs: 25,
  },
  { name: 'stop.closed', story: 'stop', step: 'everything is closed, the process lives', passagesMax: 1 },

  // A rewind by the command.
  { name: 'rewind.called', story: 'rewind', step: 'the store is open and is to be rewound', passagesMax: 1 },
  ...write('rewind.intent', 'the intent', 'rewind', 1),
  ...write('rewind.batch', 'a batch of deletions, or the end of the intent', 'rewind', 3),
  { name: 'rewind.told', story: 'rewind', step: 'the store is rewound and open', passagesMax: 1 },

  // A start behind a rewind that was cut off.
  ...write('reopen.batch', 'a batch of the interrupted rewind', 'reopen', 2),

  // A lie that was found out when it was durable above the watermark already.
  {
    name: 'anew.called',
    story: 'anew',
    step: 'indexing is to begin anew, the line is closed',
    passagesMax: 1,
  },
  ...write('anew.intent', 'the intent to forget the lie', 'anew', 1),
  ...write('anew.batch', 'a batch of the forgetting', 'anew', 2),
  { name: 'anew.told', story: 'anew', step: 'the lie is forgotten, no line runs', passagesMax: 1 },

  // What was stored while nothing was proven.
  { name: 'prove.called', story: 'prove', step: 'proofs are in hand, not checked', passagesMax: PROOFS },
  ...write('prove', 'blocks with their proofs, and what is unproven still', 'prove', PROOFS),
  { name: 'prove.told', story: 'prove', step: 'the proofs are in, more are to come', passagesMax: PROOFS },
];

export function failpointOf(name: string): Failpoint {
  const found = failpoints.find((each) => each.name === name);
  if (found === undefined) throw new Error(`there is no failpoint ${name}`);
  return found;
}
