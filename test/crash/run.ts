// Crashes the daemon at every named step and at random instants: `npm run test:crash -- --rounds 5 --seed 1`. One of them
// again: `npm run test:crash -- --only commit.durable --seed 3 --rounds 1`. docs/crash-testing.md explains it.
//
//     --rounds N       crashes for each failpoint [5]
//     --seed N         [1]
//     --only NAME      a failpoint, or the beginning of several: commit
//     --workers N      processes that do the work [2, or 1 on one processor]
//     --report FILE    writes the result as JSON
import {
  chosenFrom,
  conclude,
  serveWork,
  textOf,
  wholeNumber,
  Worker,
  WORKERS,
} from '../support/campaign.js';
import { failpoints } from './failpoints.js';
import { Lane } from './Lane.js';
import { play } from './play.js';
import { randomKills } from './randomKills.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: {
    rounds: { type: 'string', default: '5' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    workers: { type: 'string', default: WORKERS },
    report: { type: 'string' },
    /** Set by the script itself for the processes that do the work. */
    lane: { type: 'boolean', default: false },
  },
});

interface Task {
  readonly name: string;
  readonly seed: number;
}

/** What a lane says of its task. */
interface Result {
  readonly crashes: number;
  readonly failure?: string;
}

interface Row {
  readonly name: string;
  readonly step: string;
  crashes: number;
  readonly failures: { readonly seed: number; readonly message: string; readonly replay: string }[];
}

if (values.lane) serve();
else await command();

/** A lane: plays what it is given until the other side is gone. Without a run that goes well there is nothing to compare with. */
function serve(): void {
  const opened = Lane.open().catch((error: unknown) => {
    console.error(textOf(error));
    process.exit(1);
  });
  process.on('disconnect', () => void opened.then((lane) => lane.close()).finally(() => process.exit()));
  serveWork(async (task: Task | null): Promise<Result> => {
    const lane = await opened;
    if (task === null) return { crashes: 0 };
    try {
      return { crashes: await play(lane, task.name, task.seed) };
    } catch (error) {
      return { crashes: 1, failure: textOf(error) };
    }
  });
}

async function command(): Promise<void> {
  const startedAtMs = performance.now();
  const [rounds, seed] = [wholeNumber('rounds', values.rounds), wholeNumber('seed', values.seed)];
  const { rows, queue } = plan(rounds, seed);
  await Promise.all(Array.from({ length: Number(values.workers) }, () => work(queue, rows)));
  const all = [...rows.values()];
  print(all);
  const crashes = all.reduce((sum, row) => sum + row.crashes, 0);
  const failures = all.reduce((sum, row) => sum + row.failures.length, 0);
  const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
  const outcome = { runs: crashes, failures, unit: 'crashes', remark: `at ${all.length} places` };
  conclude(outcome, values.report, { rounds, seed, seconds, places: all });
}

function plan(
  rounds: number,
  seed: number,
): { readonly rows: ReadonlyMap<string, Row>; readonly queue: Task[] } {
  const { only } = values;
  const all = [...failpoints.map(({ name, step }) => ({ name, step, share: 1 })), ...randomKills];
  const chosen = chosenFrom(all, only, (name, given) => name === given || name.startsWith(`${given}.`));
  return {
    rows: new Map(chosen.map(({ name, step }) => [name, { name, step, crashes: 0, failures: [] }])),
    queue: chosen.flatMap(({ name, share }) =>
      // What is asked for by its full name is done as often as was said.
      Array.from({ length: only === name ? rounds : rounds * share }, (_, round) => ({
        ...{ name, seed: seed + round },
      })),
    ),
  };
}

/** One lane after another, should one of them die over a task. */
async function work(queue: Task[], rows: ReadonlyMap<string, Row>): Promise<void> {
  let lane: Worker<Task | null, Result> | undefined;
  for (let task = queue.shift(); task !== undefined; task = queue.shift()) {
    if (lane === undefined || lane.hasEnded) {
      lane = new Worker();
      // It has what it compares with: else this ends everything.
      await lane.ask(null);
    }
    const result = await lane.ask(task).catch((error: unknown) => ({ crashes: 1, failure: textOf(error) }));
    note(task, result, rows);
  }
  lane?.close();
}

function note({ name, seed }: Task, { crashes, failure }: Result, rows: ReadonlyMap<string, Row>): void {
  const row = rows.get(name);
  if (row === undefined) return;
  row.crashes += crashes;
  if (failure === undefined) return;
  const replay = `npm run test:crash -- --only ${name} --seed ${seed} --rounds 1`;
  row.failures.push({ seed, message: failure, replay });
  console.log(`${name}, seed ${seed}: ${failure}\n  ${replay}`);
}

function print(rows: readonly Row[]): void {
  const width = Math.max(...rows.map(({ name }) => name.length), 'failpoint'.length);
  console.log(`${'failpoint'.padEnd(width)}  crashes  failures`);
  for (const { name, crashes, failures } of rows) {
    console.log(
      `${name.padEnd(width)}  ${String(crashes).padStart(7)}  ${String(failures.length).padStart(8)}`,
    );
  }
}
