import { createHash } from 'node:crypto';
import { format } from 'prettier';
import type { Options } from 'prettier';
import { formatFigures, formatTable } from './report.js';
import type { Report } from './report.js';

/** What the figures were measured on. */
export interface Machine {
  readonly date: string;
  readonly processors: string;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
}

/** A report and what it was measured on. */
export interface Measured extends Machine {
  readonly report: Report;
}

export interface Measurements {
  readonly measured: readonly Measured[];
  /** The names of those that have not been run yet. */
  readonly absent: readonly string[];
}

const SEAL = /\n<!-- sha3-256 of all the above: ([0-9a-f]{64}) -->\n$/;

/** docs/performance.md: the reports and nothing else, sealed, so that a figure that was changed by hand is found. */
export async function performancePage({ measured, absent }: Measurements, style: Options): Promise<string> {
  const reports = measured.map(({ report }) => report);
  const sections = measured.map(({ report: { title, about, command, tables, figures }, ...machine }) =>
    [
      `## ${title}`,
      about,
      `\`${command}\` on ${machine.date}, ${machine.processors}, ${machine.memoryGiB} GiB of memory, ${machine.system}, ` +
        `Node.js ${machine.node}.`,
      ...tables.map((table) => formatTable({ ...table, title: `**${table.title}**` })),
      ...(figures.length === 0 ? [] : [formatFigures(figures, '**Against the targets**')]),
    ].join('\n\n'),
  );
  const page = `# Performance

<!-- Written by \`npm run bench -- --write\`: run that again, and edit nothing here. -->

Measured with \`npm run bench -- --write\`; each section says when and on what. Simulated access node, daemon and bench share these processors. The product and
its limit take turns within one run, and the medians of their ratios are shown: ratios carry over to other machines,
absolute figures are orders of magnitude. How the choices behind these figures were made is told in
[decisions](decisions/README.md), and why some targets are missed in [missed targets](missed-targets.md).${
    absent.length === 0 ? '' : ` Not run in full yet: ${absent.join(', ')}.`
  }

${formatFigures(
  reports.flatMap((report) => report.figures),
  '## All figures',
)}

${sections.join('\n\n')}
`;
  const body = await format(page, { ...style, parser: 'markdown' });
  return `${body}\n<!-- sha3-256 of all the above: ${digest(body)} -->\n`;
}

/** True for a page as `performancePage` wrote it. */
export function isAsWritten(page: string): boolean {
  const seal = SEAL.exec(page);
  return seal !== null && seal[1] === digest(page.slice(0, seal.index));
}

/** The names of the figures that the page calls missed, each once. */
export function missedFigures(page: string): string[] {
  const rows = page.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  return [...new Set(rows.filter(([, , , , verdict]) => verdict === 'missed').map(([, what = '']) => what))];
}

function digest(text: string): string {
  return createHash('sha3-256').update(text).digest('hex');
}
