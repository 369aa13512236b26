// Crashes the daemon at every named step and at random instants: `npm run test:crash -- --rounds 5 --seed 1`. One of them
// again: `npm run test:crash -- --only commit.durable --seed 3 --rounds 1`. docs/crash-testing.md explains it.
//
//     --rounds N       crashes for each failpoint [5]
//     --seed N         [1]
//     --only NAME      a failpoint, or the beginning of several: commit
//     --workers N      processes that do the work [2, or 1 on one processor]
//     --report FILE    writes the result as JSON
import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { failpoints } from './failpoints.js';
import { Verdict } from './Judge.js';
import { Lane } from './Lane.js';
import { play } from './play.js';
import { randomKills } from './randomKills.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: {
    rounds: { type: 'string', default: '5' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    workers: { type: 'string', default: String(Math.min(2, availableParallelism())) },
    report: { type: 'string' },
    /** Set by the script itself for the processes that do the work. */
    lane: { type: 'boolean', default: false },
  },
});

interface Task {
  readonly name: string;
  readonly seed: number;
}

/** What a lane says of its task; its first word is that it is ready. */
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

if (values.lane) await serve();
else await command();

/** A lane: plays what it is given until the other side is gone. */
async function serve(): Promise<void> {
  const answer = (result: Result): void => void process.send?.(result);
  const lane = await Lane.open().catch((error: unknown) => {
    console.error(error instanceof Verdict ? error.message : error);
    process.exit(1);
  });
  process.on('disconnect', () => void lane.close().finally(() => process.exit()));
  process.on('message', ({ name, seed }: Task) => {
    play(lane, name, seed).then(
      (crashes) => answer({ crashes }),
      (error: unknown) => {
        const isVerdict = error instanceof Verdict;
        const text =
          error instanceof Error ? ((isVerdict ? undefined : error.stack) ?? error.message) : String(error);
        answer({ crashes: 1, failure: text });
      },
    );
  });
  answer({ crashes: 0 });
}

async function command(): Promise<void> {
  const startedAtMs = performance.now();
  const [rounds, seed] = [Number(values.rounds), Number(values.seed)];
  const { rows, tasks } = plan(rounds, seed);
  if (tasks.length === 0) {
    console.error(`There is no failpoint ${values.only}. There are: ${[...everyStep().keys()].join(', ')}.`);
    process.exitCode = 64;
    return;
  }
  const queue = [...tasks];
  await Promise.all(Array.from({ length: Number(values.workers) }, () => work(queue, rows)));
  const all = [...rows.values()];
  print(all);
  const crashes = all.reduce((sum, row) => sum + row.crashes, 0);
  const failures = all.reduce((sum, row) => sum + row.failures.length, 0);
  const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
  console.log(`${crashes} crashes at ${all.length} places, ${failures} failures; ${seconds} s`);
  if (values.report !== undefined) {
    const report = { rounds, seed, crashes, failures, seconds, places: all };
    writeFileSync(values.report, JSON.stringify(report, undefined, 2) + '\n');
  }
  if (failures > 0) process.exitCode = 1;
}

/** What there is to crash at, and in words. */
function everyStep(): Map<string, string> {
  return new Map([
    ...failpoints.map(({ name, step }) => [name, step] as const),
    ...randomKills.map(({ name, step }) => [name, step] as const),
  ]);
}

function plan(
  rounds: number,
  seed: number,
): { readonly rows: ReadonlyMap<string, Row>; readonly tasks: Task[] } {
  const { only } = values;
  const rows = new Map<string, Row>();
  const tasks: Task[] = [];
  for (const [name, step] of everyStep()) {
    if (only !== undefined && name !== only && !name.startsWith(`${only}.`)) continue;
    rows.set(name, { name, step, crashes: 0, failures: [] });
    const share = randomKills.find((each) => each.name === name)?.share ?? 1;
    // What is asked for by its full name is done as often as was said.
    const times = only === name ? rounds : rounds * share;
    for (let round = 0; round < times; round += 1) tasks.push({ name, seed: seed + round });
  }
  return { rows, tasks };
}

/** One lane after another, should one of them die over a task. */
async function work(queue: Task[], rows: ReadonlyMap<string, Row>): Promise<void> {
  let lane: ChildProcess | undefined;
  for (let task = queue.shift(); task !== undefined; task = queue.shift()) {
    let result: Result;
    // Without a run that goes well there is nothing to compare with: this ends everything.
    lane ??= await newLane();
    try {
      lane.send(task);
      result = await nextWord(lane);
    } catch (error) {
      lane.kill('SIGKILL');
      lane = undefined;
      result = { crashes: 1, failure: error instanceof Error ? error.message : String(error) };
    }
    note(task, result, rows);
  }
  lane?.disconnect();
}

async function newLane(): Promise<ChildProcess> {
  const lane = fork(fileURLToPath(import.meta.url), ['--lane'], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await nextWord(lane);
  return lane;
}

function nextWord(lane: ChildProcess): Promise<Result> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null, signal: string | null): void => {
      reject(new Error(`the process that judges ended with ${code ?? signal ?? 'nothing'}`));
    };
    lane.once('exit', onExit);
    lane.once('message', (result: Result) => {
      lane.removeListener('exit', onExit);
      resolve(result);
    });
  });
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
