import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { alertRules } from '../support/alertRules.js';
import type { Outcome } from './Stage.js';

const path = join(import.meta.dirname, '../../docs/alerts.md');
const BEGIN = '<!-- Written by `npm run test:alerts -- --write`. -->';
const END = '<!-- Up to here. -->';

/** Puts what came of a run into docs/alerts.md; alerts that it left out keep the row that they had. */
export async function writePage(outcomes: readonly Outcome[]): Promise<void> {
  const page = readFileSync(path, 'utf8');
  const [before, rest] = page.split(BEGIN);
  const [table, after] = rest?.split(END) ?? [];
  if (before === undefined || table === undefined || after === undefined)
    throw new Error(`${path} has no place for the table`);
  const today = new Date().toISOString().slice(0, 10);
  const rows = new Map(
    [...table.matchAll(/^\| \[(\w+)\].*$/gm)].map(([row, alert = '']): [string, string] => [alert, row]),
  );
  for (const { alert, clearedSeconds, fault, firedSeconds, repaired } of outcomes) {
    const link = `[${alert}](runbook.md#${alert.toLowerCase()})`;
    const cells = [link, fault, firedSeconds.toFixed(1), repaired, clearedSeconds.toFixed(1), today];
    rows.set(alert, `| ${cells.join(' | ')} |`);
  }
  const lines = [
    '| alert | fault | fired after (s) | ended by | cleared after (s) | on |',
    '| --- | --- | ---: | --- | ---: | --- |',
    ...alertRules().flatMap(({ alert }) => rows.get(alert) ?? []),
  ];
  const text = `${before}${BEGIN}\n\n${lines.join('\n')}\n\n${END}${after}`;
  writeFileSync(path, await format(text, { ...(await resolveConfig(path)), filepath: path }));
}
