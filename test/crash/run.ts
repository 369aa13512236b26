// Crashes the daemon at every named step and at random instants: `npm run test:crash -- --rounds 5 --seed 1`. One of them
// again: `npm run test:crash -- --only commit.durable --seed 3 --rounds 1`. docs/crash-testing.md explains it.
//
//     --rounds N       crashes for each failpoint [5]
//     --seed N         [1]
//     --only NAME      a failpoint, or the beginning of several: commit
//     --workers N      processes that do the work [2, or 1 on one processor]
//     --report FILE    writes the result as JSON
import { chosenFrom, conclude, isLane, serveWork, textOf, wholeNumber } from '../support/campaign.js';
import { workOff, WORKERS } from '../support/campaign.js';
import { failpoints } from './failpoints.js';
import { Lane } from './Lane.js';
import { play, randomKills } from './stories.js';
import { scriptOptions } from '../support/scriptOptions.js';

const { values } = scriptOptions({
  options: {
    rounds: { type: 'string', default: '5' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    workers: { type: 'string', default: WORKERS },
    report: { type: 'string' },
  },
});

interface Task {
  readonly name: string;
  readonly seed: number;
}

interface Result {
  readonly crashes: number;
  readonly failure?: string;
}

if (isLane) serve();
else await command();

/** Without a run that goes well there is nothing to compare with, and every task fails. */
function serve(): void {
  const opened = Lane.open();
  opened.catch(() => undefined);
  serveWork(
    async ({ name, seed }: Task): Promise<Result> => {
      try {
        return { crashes: await play(await opened, name, seed) };
      } catch (error) {
        return { crashes: 1, failure: textOf(error) };
      }
    },
    async () => (await opened).close(),
  );
}

async function command(): Promise<void> {
  const startedAtMs = performance.now();
  const { only, workers } = values;
  const [rounds, firstSeed] = [wholeNumber('rounds', values.rounds), wholeNumber('seed', values.seed)];
  const all = [...failpoints.map(({ name, step }) => ({ name, step, share: 1 })), ...randomKills];
  const chosen = chosenFrom(all, only, (name, given) => name === given || name.startsWith(`${given}.`));
  const places = chosen.map(({ name, step, share }) => ({
    ...{ name, step, crashes: 0, failures: [] as object[] },
    // What is asked for by its full name is done as often as was said.
    rounds: only === name ? rounds : rounds * share,
  }));
  const tasks = places.flatMap((place) =>
    Array.from({ length: place.rounds }, (_, round) => ({ place, seed: firstSeed + round })),
  );
  await workOff<(typeof tasks)[number], Task, Result>(tasks, { workers }, async ({ place, seed }, worker) => {
    const { name, failures } = place;
    const failed = (error: unknown): Result => ({ crashes: 1, failure: textOf(error) });
    const { crashes, failure: message } = await worker.ask({ name, seed }).catch(failed);
    place.crashes += crashes;
    if (message === undefined) return;
    const replay = `npm run test:crash -- --only ${name} --seed ${seed} --rounds 1`;
    failures.push({ seed, message, replay });
    console.log(`${name}, seed ${seed}: ${message}\n  ${replay}`);
  });
  console.table(
    places.map(({ name, crashes, failures }) => ({ failpoint: name, crashes, failures: failures.length })),
  );
  const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
  const outcome = {
    ...{ runs: places.reduce((sum, { crashes }) => sum + crashes, 0), unit: 'crashes' },
    failures: places.reduce((sum, { failures }) => sum + failures.length, 0),
    remark: `at ${places.length} places`,
  };
  conclude(outcome, values.report, { rounds, seed: firstSeed, seconds, places });
}
