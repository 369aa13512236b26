import { loadDoctor } from '../../app/index.js';
import type { Verdict } from '../../app/index.js';
import { systemClock } from '../../runtime/index.js';
import type { Run } from '../command.js';
import type { doctorFlags } from '../arguments/flags.js';
import { checkEndpoints, configOf } from '../arguments/settings.js';
import { daemonStatus } from '../client/askDaemon.js';
import { counted, wrapped } from '../output/words.js';

const VERDICT_COLUMNS = 9;
const CHECK_COLUMNS = 15;
const INDENT = VERDICT_COLUMNS + CHECK_COLUMNS;
/** Narrower terminals get whole lines, which they wrap themselves. */
const LEAST_COLUMNS = INDENT + 40;
/** The daemon of the data directory is asked, wherever the one that is looked at is to listen. */
const AS_RECORDED = { 'api.host': 'default', 'api.port': 'default' } as const;

/** A verdict as printed: on a terminal, wrapped to its width and aligned below the beginning of the sentence. */
function verdictLines({ check, message, verdict }: Verdict, width: number): string {
  const head = `${verdict.padEnd(VERDICT_COLUMNS)}${check.padEnd(CHECK_COLUMNS)}`;
  const room = width >= LEAST_COLUMNS ? width - INDENT : Infinity;
  const lines = wrapped(message, room, 'whole');
  return `${head}${lines.join(`\n${' '.repeat(INDENT)}`)}\n`;
}

export const doctor: Run<typeof doctorFlags> = async (invocation, terminal) => {
  const { json } = invocation.flags;
  const loaded = checkEndpoints(await configOf(invocation, terminal));
  const width = terminal.isTerminal ? terminal.columns() : Infinity;
  const { examine } = await loadDoctor();
  const verdicts = await examine(loaded, {
    clock: systemClock,
    status: () => daemonStatus({ ...loaded, origins: AS_RECORDED }),
    onVerdict: (verdict) => {
      if (!json) terminal.out(verdictLines(verdict, width));
    },
  });
  const problems = verdicts.filter(({ verdict }) => verdict === 'problem');
  const warnings = verdicts.filter(({ verdict }) => verdict === 'warning');
  // The first problem decides; warnings do not count.
  const exit = problems[0]?.exit ?? 'done';
  const counts = `${counted(problems.length, 'problem')}, ${counted(warnings.length, 'warning')}.`;
  const summary = problems.length + warnings.length === 0 ? 'Nothing is wrong.' : counts;
  terminal.out(json ? `${JSON.stringify({ verdicts, exit })}\n` : `${summary}\n`);
  return exit;
};
