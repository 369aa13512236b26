import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import type { Outcome } from './Stage.js';

const path = join(import.meta.dirname, '../../docs/alerts.md');
const BEGIN = '<!-- Written by `npm run test:alerts -- --write`. -->';
const END = '<!-- Up to here. -->';

/** Puts what came of a whole run into docs/alerts.md. */
export async function writePage(outcomes: readonly Outcome[]): Promise<void> {
  const page = readFileSync(path, 'utf8');
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) throw new Error(`${path} has no place for the table`);
  const rows = outcomes.map(
    ({ alert, clearedSeconds, fault, firedSeconds, mended }) =>
      `| [${alert}](runbook.md#${alert.toLowerCase()}) | ${fault} | ${firedSeconds.toFixed(1)} | ${mended} | ${clearedSeconds.toFixed(1)} |`,
  );
  const table = [
    `Run on ${new Date().toISOString().slice(0, 10)}, with Node.js ${process.versions.node}:`,
    '',
    '| alert | fault | fired after (s) | ended by | cleared after (s) |',
    '| --- | --- | ---: | --- | ---: |',
    ...rows,
  ].join('\n');
  const text = `${before}${BEGIN}\n\n${table}\n\n${END}${after}`;
  writeFileSync(path, await format(text, { ...(await resolveConfig(path)), filepath: path }));
}
