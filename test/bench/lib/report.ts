import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { watchOthers } from './load.js';
import { scriptOptions } from '../../support/scriptOptions.js';

/** A figure with what it is held to; `atLeast` or `atMost`, or neither where it is only told. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  /** Written behind the value; none for a ratio. */
  readonly unit?: string;
  readonly atLeast?: number;
  readonly atMost?: number;
  /** What it was measured on, and what else ran. */
  readonly on?: string;
}

export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

export interface Findings {
  readonly tables: readonly Table[];
  readonly figures: readonly Figure[];
}

export interface Report extends Findings {
  readonly title: string;
  /** What is measured, against what, and how; plain sentences. */
  readonly about: string;
  readonly command: string;
}

/** How much a bench is to do. */
export interface Effort {
  /** About ten seconds in all, for a look; its figures are not held to the targets. */
  readonly quick: boolean;
  /** Rounds to take medians of; five at least unless quick. */
  readonly rounds: number;
}

const ROUNDS = 5;
const QUICK_ROUNDS = 1;

/**
 * Runs one bench as a program: `--quick`, `--rounds N`, and `--json FILE` to leave the report for `npm run bench`. Prints
 * the tables, and the figures last. Flags of the bench's own are read by itself.
 */
export async function bench(
  { title, about }: Pick<Report, 'title' | 'about'>,
  measure: (effort: Effort) => Promise<Findings>,
): Promise<void> {
  const { values } = scriptOptions({
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      json: { type: 'string' },
    },
    strict: false,
  });
  const quick = values.quick === true;
  const rounds = Number(values.rounds ?? (quick ? QUICK_ROUNDS : ROUNDS));
  const measuredOn = watchOthers();
  const { tables, figures } = await measure({ quick, rounds });
  const on = measuredOn();
  const script = basename(process.argv[1] ?? '', '.ts');
  const report: Report = {
    ...{ title, about, command: `npm run bench -- --only ${script}`, tables },
    figures: figures.map((figure) => ({ ...figure, on })),
  };
  if (typeof values.json === 'string') writeFileSync(values.json, JSON.stringify(report));
  process.stdout.write(`\n${title}\n${about}\n\n`);
  for (const table of report.tables) process.stdout.write(`${formatTable(table)}\n`);
  if (report.figures.length > 0) process.stdout.write(`${formatFigures(report.figures)}\n`);
}

/** A Markdown table whose columns line up, so that it reads well in a terminal too. */
export function formatTable({ title, columns, rows }: Table): string {
  const text = [columns, ...rows].map((row) => row.map(String));
  const widths = columns.map((_, column) => Math.max(3, ...text.map((row) => row[column]?.length ?? 0)));
  const isNumber = (cell: string): boolean => /^([≤≥] )?[\d.,?]+/.test(cell);
  const alignRight = columns.map((_, column) => text.slice(1).every((row) => isNumber(row[column] ?? '')));
  const line = (row: readonly string[]): string =>
    `| ${widths
      .map((width, column) => {
        const cell = row[column] ?? '';
        return alignRight[column] === true ? cell.padStart(width) : cell.padEnd(width);
      })
      .join(' | ')} |\n`;
  const rule = `| ${widths.map((width, column) => (alignRight[column] === true ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width))).join(' | ')} |\n`;
  const [head = [], ...body] = text;
  return `${title}\n\n${line(head)}${rule}${body.map(line).join('')}`;
}

export function formatFigures(figures: readonly Figure[], title = 'Against the targets'): string {
  return formatTable({
    title,
    columns: ['figure', 'measured', 'target', '', 'on'],
    rows: figures.map((figure) => [
      figure.what,
      withUnit(figure.value, figure.unit),
      targetOf(figure),
      verdictOf(figure),
      figure.on ?? '',
    ]),
  });
}

export function isMet({ value, atLeast, atMost }: Figure): boolean {
  return value >= (atLeast ?? -Infinity) && value <= (atMost ?? Infinity);
}

function targetOf({ atLeast, atMost, unit }: Figure): string {
  if (atLeast !== undefined) return `≥ ${withUnit(atLeast, unit)}`;
  return atMost === undefined ? '' : `≤ ${withUnit(atMost, unit)}`;
}

function verdictOf(figure: Figure): string {
  if (figure.atLeast === undefined && figure.atMost === undefined) return '';
  return isMet(figure) ? 'met' : 'missed';
}

/** Three digits that count; whole numbers from a hundred on. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return '?';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(3)));
}

function withUnit(value: number, unit: string | undefined): string {
  return unit === undefined ? digits(value) : `${digits(value)} ${unit}`;
}
