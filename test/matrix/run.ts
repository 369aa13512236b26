// Every upstream method with every fault that it can have: `npm run test:matrix`. docs/fault-matrix.md explains it.
//
//     --only NAME      the beginning of the cells' names: GetTransaction, GetTransaction/stall, GetTransaction/stall/tip
//     --quick          one cell of each kind, drawn by the seed
//     --seed N         [1]
//     --workers N      processes that do the work [2, or 1 on one processor]
//     --at-once N      cells at once in each process [16]
//     --list           names the cells, and plays none
//     --report FILE    writes the result as JSON
import { conclude, isLane, serveWork, textOf, wholeNumber, workOff, WORKERS } from '../support/campaign.js';
import { cellNamed, cells, sampleOf, type Cell } from './cells.js';
import { isDisturbed, play, type CellResult } from './play.js';
import { refuse, scriptOptions } from '../support/scriptOptions.js';

/** What each leaves behind in its process adds up. */
const CELLS_PER_PROCESS = 150;

const { values } = scriptOptions({
  options: {
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    workers: { type: 'string', default: WORKERS },
    'at-once': { type: 'string', default: '16' },
    list: { type: 'boolean', default: false },
    report: { type: 'string' },
  },
});

if (isLane) serveWork((name: string) => play(cellNamed(name)));
else await command();

async function command(): Promise<void> {
  const startedAtMs = performance.now();
  const { only = '' } = values;
  const named = cells.filter(({ name }) => only === '' || `${name}/`.startsWith(`${only}/`));
  if (named.length === 0)
    refuse(`There is no cell ${only}. Name a method of docs/fault-matrix.md, or METHOD/FAULT.`);
  const chosen = values.quick ? sampleOf(named, wholeNumber('seed', values.seed)) : named;
  if (values.list) {
    console.log([...chosen.map(({ name }) => name), `${chosen.length} cells`].join('\n'));
    return;
  }
  const queue = spread(chosen);
  const results: CellResult[] = [];
  const played = new Map<string, number>();
  const how = {
    workers: values.workers,
    ...{ atOnce: wholeNumber('at-once', values['at-once']), tasksPerProcess: CELLS_PER_PROCESS },
  };
  await workOff<Cell, string, CellResult>(queue, how, async (cell, worker) => {
    // A process that dies takes its cells with it: each of them has failed.
    const result = await worker.ask(cell.name).catch((error: unknown): CellResult => {
      const failures = [{ kind: 'broken' as const, detail: textOf(error) }];
      return { cell: cell.name, outcome: 'neither', failures, heldUpMs: 0, seconds: 0 };
    });
    if (isDisturbed(result, played)) {
      queue.push(cell);
      return;
    }
    results.push(result);
    for (const { kind, detail } of result.failures) console.log(`${result.cell}: ${kind}: ${detail}`);
    if (results.length % 50 === 0) console.log(`… ${results.length} of ${chosen.length}`);
  });
  const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
  const again = [...played.values()].reduce((sum, times) => sum + times - 1, 0);
  if (again > 0) console.log(`${again} times a cell was played again because the machine was too busy`);
  const ended = (outcome: CellResult['outcome']): number =>
    results.filter((result) => result.outcome === outcome).length;
  const outcome = {
    ...{ runs: results.length, failures: results.filter(({ failures }) => failures.length > 0).length },
    ...{ unit: 'cells' },
    remark: `${ended('progress')} went on, ${ended('cause')} told the cause, ${ended('exit')} ended`,
  };
  conclude(outcome, values.report, { seconds, results });
}

/** Cells that are alike wait alike: side by side they would all start and stop at once. */
function spread(chosen: readonly Cell[]): Cell[] {
  const stride = 37;
  return Array.from({ length: stride }, (_, first) =>
    chosen.filter((_cell, at) => at % stride === first),
  ).flat();
}
