import type { Outcome } from '../support/campaign.js';
import { failureKinds } from './play.js';
import type { CellResult } from './play.js';

/** The cells of one method and one kind of fault. */
interface Row {
  readonly method: string;
  readonly kind: string;
  cells: number;
  failed: number;
}

export function outcomeOf(results: readonly CellResult[]): Outcome {
  const ended = (outcome: CellResult['outcome']): number =>
    results.filter((result) => result.outcome === outcome).length;
  return {
    ...{ runs: results.length, failures: results.filter(hasFailed).length, unit: 'cells' },
    remark: `${ended('progress')} went on, ${ended('cause')} told the cause, ${ended('exit')} ended`,
  };
}

function hasFailed({ failures }: CellResult): boolean {
  return failures.length > 0;
}

/** The table of methods and kinds, then the failures by what went wrong and what `/readyz` said of it. */
export function print(results: readonly CellResult[]): void {
  const rows = new Map<string, Row>();
  for (const result of results) {
    const [method = ''] = result.cell.split('/');
    const key = `${method}/${result.kind}`;
    const row = rows.get(key) ?? { method, kind: result.kind, cells: 0, failed: 0 };
    row.cells += 1;
    row.failed += hasFailed(result) ? 1 : 0;
    rows.set(key, row);
  }
  console.log(`\n${'method'.padEnd(44)}${'fault'.padEnd(14)}cells  failed`);
  for (const { method, kind, cells, failed } of [...rows.values()].sort((a, b) =>
    (a.method + a.kind).localeCompare(b.method + b.kind),
  )) {
    console.log(
      `${method.padEnd(44)}${kind.padEnd(14)}${String(cells).padStart(5)}${String(failed).padStart(8)}`,
    );
  }
  for (const kind of failureKinds) {
    const groups = new Map<string, string[]>();
    for (const { cell, failures } of results) {
      const failure = failures.find((each) => each.kind === kind);
      if (failure === undefined) continue;
      const what = unnumbered(failure.detail);
      groups.set(what, [...(groups.get(what) ?? []), cell]);
    }
    if (groups.size === 0) continue;
    console.log(`\n== ${kind}`);
    for (const [what, cells] of [...groups].sort(([, a], [, b]) => b.length - a.length)) {
      const named = cells.slice(0, 6).join(' ');
      const more = cells.length > 6 ? ` and ${cells.length - 6} more` : '';
      console.log(`${cells.length} × ${what}\n    ${named}${more}`);
    }
  }
  console.log();
}

/** What differs from cell to cell alone: addresses, ids, numbers. */
function unnumbered(text: string): string {
  return text
    .replaceAll(/127\.0\.0\.1:\d+/g, 'NODE')
    .replaceAll(/\b[0-9a-f]{64}\b/g, 'ID')
    .replaceAll(/\d+/g, 'N');
}
