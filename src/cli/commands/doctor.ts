import { loadDoctor } from '../../app/index.js';
import type { Verdict } from '../../app/index.js';
import { systemClock } from '../../runtime/index.js';
import type { Run } from '../command.js';
import type { doctorFlags } from '../arguments/flags.js';
import { checkEndpoints, configOf } from '../arguments/settings.js';
import { counted, wrapped } from '../output/words.js';

const VERDICT_COLUMNS = 9;
const CHECK_COLUMNS = 15;
const INDENT = VERDICT_COLUMNS + CHECK_COLUMNS;

/** Narrower terminals get whole lines, which they wrap themselves. */
const LEAST_COLUMNS = INDENT + 40;

/** A verdict as printed: on a terminal, wrapped to its width and aligned below the beginning of the sentence. */
function verdictLines({ check, message, verdict }: Verdict, width: number): string {
  const head = `${verdict.padEnd(VERDICT_COLUMNS)}${check.padEnd(CHECK_COLUMNS)}`;
  const room = width >= LEAST_COLUMNS ? width - INDENT : Infinity;
  const lines = wrapped(message, room, 'whole');
  return `${head}${lines.join(`\n${' '.repeat(INDENT)}`)}\n`;
}

/** Counts of problems and warnings. */
function summaryOf(verdicts: readonly Verdict[]): string {
  const count = (kind: Verdict['verdict']) => verdicts.filter(({ verdict }) => verdict === kind).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  if (problems + warnings === 0) return 'Nothing is wrong.';
  return `${counted(problems, 'problem')}, ${counted(warnings, 'warning')}.`;
}

/** `doctor`: looks at machine, nodes and store as `start` would find them, and says what to change. */
export const doctor: Run<typeof doctorFlags> = async (invocation, terminal) => {
  const { json } = invocation.flags;
  const loaded = await configOf(invocation, terminal);
  checkEndpoints(loaded);
  const width = terminal.isTerminal ? terminal.columns() : Infinity;
  const { examine } = await loadDoctor();
  const verdicts = await examine(loaded, {
    clock: systemClock,
    onVerdict: (verdict) => {
      if (!json) terminal.out(verdictLines(verdict, width));
    },
  });
  // The first problem decides; warnings do not count.
  const exit = verdicts.find(({ verdict }) => verdict === 'problem')?.exit ?? 'done';
  if (json) terminal.out(`${JSON.stringify({ verdicts, exit })}\n`);
  else terminal.out(`${summaryOf(verdicts)}\n`);
  return exit;
};
