import type { Verdict } from '../../app/index.js';

const VERDICT_COLUMNS = 9;
const CHECK_COLUMNS = 15;
const INDENT = VERDICT_COLUMNS + CHECK_COLUMNS;
/** Narrower terminals get whole lines, which they wrap themselves. */
const LEAST_COLUMNS = INDENT + 40;

/** A verdict as it is printed: on a terminal wrapped to its width, below the sentence's beginning. */
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

/** How it stands, in one line. */
export function summaryOf(verdicts: readonly Verdict[]): string {
  const count = (kind: Verdict['verdict']): number =>
    verdicts.filter(({ verdict }) => verdict === kind).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  if (problems + warnings === 0) return 'Nothing is wrong.';
  const inWords = (number: number, word: string): string => `${number} ${word}${number === 1 ? '' : 's'}`;
  return `${inWords(problems, 'problem')}, ${inWords(warnings, 'warning')}.`;
}
