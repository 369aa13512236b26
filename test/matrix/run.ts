// Every upstream method with every fault that it can have: `npm run test:matrix`. docs/fault-matrix.md explains it.
//
//     --only NAME      the beginning of the cells' names: GetTransaction, GetTransaction/stall, GetTransaction/stall/tip
//     --quick          one cell of each kind, drawn by the seed
//     --seed N         [1]
//     --workers N      processes that do the work [2, or 1 on one processor]
//     --at-once N      cells at once in each process [16]
//     --list           names the cells, and plays none
//     --report FILE    writes the result as JSON
import { conclude, Worker, WORKERS, serveWork, textOf, wholeNumber } from '../support/campaign.js';
import { everyCell, sampleOf } from './cells.js';
import type { Cell } from './cells.js';
import { isDisturbed, play, PLAYED_MAX } from './play.js';
import type { CellResult } from './play.js';
import { outcomeOf, print } from './report.js';
import { refuse, scriptOptions } from '../support/scriptOptions.js';

/** A process is let go after so many cells: what each leaves behind in it adds up. */
const CELLS_PER_LANE = 150;
/** Two cells do not start in the same moment: the start is what costs. */
const BETWEEN_STARTS_MS = 150;

const { values } = scriptOptions({
  options: {
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    workers: { type: 'string', default: WORKERS },
    'at-once': { type: 'string', default: '16' },
    list: { type: 'boolean', default: false },
    report: { type: 'string' },
    /** Set by the script itself for the processes that do the work. */
    lane: { type: 'boolean', default: false },
  },
});

const cells = everyCell();
if (values.lane) serve();
else await command();

/** A lane: plays the cells that it is given, as many at once as come. */
function serve(): void {
  process.on('disconnect', () => process.exit());
  serveWork((name: string) => {
    const cell = cells.find((each) => each.name === name);
    if (cell === undefined) throw new Error(`there is no cell ${name}`);
    return play(cell);
  });
}

async function command(): Promise<void> {
  const startedAtMs = performance.now();
  const named = cells.filter(({ name }) => values.only === undefined || isOf(name, values.only));
  const chosen = values.quick ? sampleOf(named, wholeNumber('seed', values.seed)) : named;
  if (chosen.length === 0)
    refuse(
      `There is no cell ${String(values.only)}. Name a method of docs/fault-matrix.md, or METHOD/FAULT.`,
    );
  if (values.list) {
    for (const { name } of chosen) console.log(name);
    console.log(`${chosen.length} cells`);
    return;
  }
  const queue = spread(chosen);
  const results: CellResult[] = [];
  const played = new Map<string, number>();
  let again = 0;
  const onResult = (result: CellResult, cell: Cell): void => {
    const times = (played.get(cell.name) ?? 0) + 1;
    played.set(cell.name, times);
    if (isDisturbed(result) && times < PLAYED_MAX) {
      again += 1;
      queue.push(cell);
      return;
    }
    results.push(result);
    for (const { kind, detail } of result.failures) console.log(`${result.cell}: ${kind}: ${detail}`);
    if (results.length % 50 === 0) console.log(`… ${results.length} of ${chosen.length}`);
  };
  await Promise.all(Array.from({ length: Number(values.workers) }, () => work(queue, onResult)));
  const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
  print(results);
  if (again > 0) console.log(`${again} times a cell was played again because the machine was too busy`);
  conclude(outcomeOf(results), values.report, { seconds, results });
}

function isOf(name: string, beginning: string): boolean {
  return name === beginning || name.startsWith(`${beginning}/`);
}

/** Cells that are alike wait alike: side by side they would all start and stop at once. */
function spread(chosen: readonly Cell[]): Cell[] {
  const stride = 37;
  return Array.from({ length: stride }, (_, first) =>
    chosen.filter((_cell, at) => at % stride === first),
  ).flat();
}

/** One lane after another, until nothing is left to play. */
async function work(queue: Cell[], onResult: (result: CellResult, cell: Cell) => void): Promise<void> {
  while (queue.length > 0) {
    const lane = new Worker<string, CellResult>();
    const batch = { left: CELLS_PER_LANE };
    await Promise.all(
      Array.from({ length: Number(values['at-once']) }, async (_, slot) => {
        await new Promise((resolve) => setTimeout(resolve, slot * BETWEEN_STARTS_MS));
        while (batch.left > 0) {
          const cell = queue.shift();
          if (cell === undefined) return;
          batch.left -= 1;
          onResult(await playedBy(lane, cell), cell);
        }
      }),
    );
    lane.close();
  }
}

/** A lane that dies takes its cells with it: each of them has failed. */
function playedBy(lane: Worker<string, CellResult>, { name, kind }: Cell): Promise<CellResult> {
  return lane.ask(name).catch((error: unknown) => {
    const failures = [{ kind: 'broken' as const, detail: textOf(error) }];
    return { cell: name, kind, outcome: 'neither', failures, heldUpMs: 0, seconds: 0 };
  });
}
