import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { format, type Options } from 'prettier';
import { statOf } from '../../support/processFiles.js';
import { scriptOptions } from '../../support/scriptOptions.js';
import { median } from './statistics.js';

/** A figure with what it is held to; `atLeast` or `atMost`, or neither where it is only told. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit?: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

export function atLeast(least: number, what: string, value: number, unit?: string): Figure {
  return { what, value, ...(unit !== undefined && { unit }), atLeast: least };
}

export function atMost(most: number, what: string, value: number, unit?: string): Figure {
  return { what, value, ...(unit !== undefined && { unit }), atMost: most };
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

export function together(...parts: readonly Findings[]): Findings {
  return { tables: parts.flatMap(({ tables }) => tables), figures: parts.flatMap(({ figures }) => figures) };
}

export interface Report extends Findings {
  readonly title: string;
  /** What is measured, against what, and how; plain sentences. */
  readonly about: string;
  readonly command: string;
  /** What ran beside it: "0.1 of 2 processors used by others". */
  readonly beside: string;
}

export interface Effort {
  /** About ten seconds in all, for a look; its figures are not held to the targets. */
  readonly quick: boolean;
  /** Rounds to take medians of; five at least unless quick. */
  readonly rounds: number;
}

const ROUNDS = 5;
const QUICK_ROUNDS = 1;

/** Runs one bench as a program, which prints its tables and figures. `--json FILE` leaves the report for `npm run bench`. */
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
  });
  const { quick } = values;
  const rounds = Number(values.rounds ?? (quick ? QUICK_ROUNDS : ROUNDS));
  const othersUsed = watchOthers();
  const findings = await measure({ quick, rounds });
  const script = basename(process.argv[1] ?? '', '.ts');
  const command = `npm run bench -- --only ${script}`;
  const report: Report = { title, about, command, beside: othersUsed(), ...findings };
  if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(report));
  process.stdout.write(`\n${title}\n${about}\n\n`);
  for (const table of report.tables) process.stdout.write(`${formatTable(table)}\n`);
  process.stdout.write(`${formatFigures(report.figures)}\n`);
  process.exit(0);
}

/** Of /proc; the same on every Linux. */
const TICKS_PER_SECOND = 100;

/** The function that comes back says what has run beside the bench. */
function watchOthers(): () => string {
  const before = ticksOfOthers();
  const startedAtMs = performance.now();
  return () => {
    const ticks = ((performance.now() - startedAtMs) / 1000) * TICKS_PER_SECOND;
    const others = Math.max(0, (ticksOfOthers() - before) / ticks).toFixed(1);
    return `${others === 'NaN' ? 'an unknown share' : others} of ${availableParallelism()} processors used by others`;
  };
}

/** Processor time of everything but the process group of this bench; not a number where there is no /proc. */
function ticksOfOthers(): number {
  try {
    const [, user, nice, system, , , irq, softIrq, steal] = readFileSync('/proc/stat', 'utf8').split(/\s+/);
    const own = statOf('self')[2];
    const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const ours = processes.map((pid) => statOf(pid)).filter((fields) => fields[2] === own);
    // Their own, and that of children that have ended.
    const used = ours.flatMap((fields) => fields.slice(11, 15));
    return sum([user, nice, system, irq, softIrq, steal]) - sum(used);
  } catch {
    return Number.NaN;
  }
}

function sum(values: readonly (string | undefined)[]): number {
  return values.reduce((total, value) => total + Number(value ?? 0), 0);
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

export function mediansTable(
  title: string,
  columns: readonly [what: string, unit: string],
  rounds: Readonly<Record<string, readonly number[]>>,
): Table {
  const rows = Object.entries(rounds).map(([name, values]) => [name, digits(median(values))]);
  return { title, columns, rows };
}

export function formatFigures(figures: readonly Figure[], title = 'Against the targets'): string {
  return formatTable({
    title,
    columns: ['figure', 'measured', 'target', ''],
    rows: figures.map((figure) => {
      const { what, value, unit } = figure;
      return [what, withUnit(value, unit), targetOf(figure), verdictOf(figure)];
    }),
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

export interface Measured {
  readonly date: string;
  readonly processors: string;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
  readonly report: Report;
}

const SEAL = /\n<!-- sha3-256 of all the above: ([0-9a-f]{64}) -->\n$/;

/** What an operator asks first: a figure, or a row of a table with the column. */
const IN_SHORT = [
  ['catching up with execution data, blocks of 50 transactions', 'product, EDI only', 'heights/s'],
  ['the same by requests alone', 'product, requester only', 'heights/s'],
  ['catching up with empty blocks', 'product, EDI only, empty blocks', 'heights/s'],
  ['memory of its own while catching up', 'anonymous memory while catching up', ''],
  [
    'at the tip: from the moment a node has all of a block until ours can be read, p50',
    'tip, fresh blocks, late, p50',
    '',
  ],
  ['the same, p99', 'tip, fresh blocks, late, p99', ''],
  ['transactions read by id over HTTP, 16 at once', 'transaction, 16 at once', 'HTTP reads/s'],
  ['from the start to the first answer', 'start to serving, /readyz', ''],
] as const;

function inShort(reports: readonly Report[]): string[][] {
  return IN_SHORT.map(([name, what, column]) => {
    const figure = reports.flatMap(({ figures }) => figures).find((each) => each.what === what);
    if (figure !== undefined) return [name, withUnit(figure.value, figure.unit)];
    const table = reports.flatMap(({ tables }) => tables).find(({ columns }) => columns.includes(column));
    const cell = table?.rows.find(([row]) => row === what)?.[table.columns.indexOf(column)];
    return [name, cell === undefined ? 'not measured' : `${cell} ${column}`];
  });
}

/** docs/performance.md, sealed: a figure that was changed by hand is found. It names the `absent`, which have yet to be run. */
export async function performancePage(
  measured: readonly Measured[],
  absent: readonly string[],
  style: Options,
): Promise<string> {
  const reports = measured.map(({ report }) => report);
  const sections = measured.map(
    ({ report: { title, about, command, beside, tables, figures }, ...machine }) =>
      [
        `## ${title}`,
        about,
        `\`${command}\` on ${machine.date}, ${machine.processors}, ${machine.memoryGiB} GiB of memory, ${machine.system}, ` +
          `Node.js ${machine.node}; ${beside}.`,
        ...tables.map((table) => formatTable({ ...table, title: `**${table.title}**` })),
        ...(figures.length === 0 ? [] : [formatFigures(figures, '**Against the targets**')]),
      ].join('\n\n'),
  );
  const held = reports.flatMap(({ figures }) => figures).filter((figure) => targetOf(figure) !== '');
  const page = `# Performance

<!-- Written by \`npm run bench -- --write\`: run that again, and edit nothing here. -->

What a daemon needs is told in [sizing](sizing.md). How fast it is, in short:

${formatTable({ title: '', columns: ['what', 'measured'], rows: inShort(reports) })}

Measured with \`npm run bench -- --write\`; each section says when and on what. Simulated access node, daemon and bench share these processors. The product and
its limit take turns within one run, and the medians of their ratios are shown: ratios carry over to other machines,
absolute figures are orders of magnitude. How the choices behind these figures were made is told in
[decisions](decisions/README.md). Of ${held.length} targets ${held.filter((figure) => !isMet(figure)).length} are missed, and [missed targets](missed-targets.md) tells why.${
    absent.length === 0 ? '' : ` Not run in full yet: ${absent.join(', ')}.`
  }

${sections.join('\n\n')}
`;
  const body = await format(page, { ...style, parser: 'markdown' });
  return `${body}\n<!-- sha3-256 of all the above: ${digest(body)} -->\n`;
}

export function isAsWritten(page: string): boolean {
  const seal = SEAL.exec(page);
  return seal !== null && seal[1] === digest(page.slice(0, seal.index));
}

export function missedFigures(page: string): string[] {
  const rows = page.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  return [...new Set(rows.filter(([, , , , verdict]) => verdict === 'missed').map(([, what = '']) => what))];
}

const digest = (text: string): string => createHash('sha3-256').update(text).digest('hex');
