import type { Verdict } from '../../app/index.js';
import { counted } from './counted.js';

const VERDICT_COLUMNS = 9;
const CHECK_COLUMNS = 15;
const INDENT = VERDICT_COLUMNS + CHECK_COLUMNS;
/** Narrower terminals get whole lines, which they wrap themselves. */
const LEAST_COLUMNS = INDENT + 40;

/** A verdict as printed: on a terminal, wrapped to its width and aligned below the beginning of the sentence. */
export function verdictLines({ check, message, verdict }: Verdict, width: number): string {
  const head = `${verdict.padEnd(VERDICT_COLUMNS)}${check.padEnd(CHECK_COLUMNS)}`;
  const room = width >= LEAST_COLUMNS ? width - INDENT : Infinity;
  const lines: string[] = [];
  let line = '';
  for (const word of message.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > room) {
      lines.push(line);
      line = '';
    }
    line += line === '' ? word : ` ${word}`;
  }
  lines.push(line);
  return `${head}${lines.join(`\n${' '.repeat(INDENT)}`)}\n`;
}

/** Counts of problems and warnings. */
export function summaryOf(verdicts: readonly Verdict[]): string {
  const count = (kind: Verdict['verdict']): number =>
    verdicts.filter(({ verdict }) => verdict === kind).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  if (problems + warnings === 0) return 'Nothing is wrong.';
  return `${counted(problems, 'problem')}, ${counted(warnings, 'warning')}.`;
}
