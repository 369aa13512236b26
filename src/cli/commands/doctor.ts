import { loadDoctor } from '../../app/index.js';
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
/** Asks the daemon recorded in the data directory, wherever the configuration under test would listen. */
const AS_RECORDED = { 'api.host': 'default', 'api.port': 'default' } as const;

export const doctor: Run<typeof doctorFlags> = async (invocation, terminal) => {
  const { json } = invocation.flags;
  const loaded = checkEndpoints(await configOf(invocation, terminal));
  const width = terminal.isTerminal ? terminal.columns() : Infinity;
  const room = width >= LEAST_COLUMNS ? width - INDENT : Infinity;
  const { examine } = await loadDoctor();
  const verdicts = await examine(loaded, {
    clock: systemClock,
    status: () => daemonStatus({ ...loaded, origins: AS_RECORDED }, { needs: ['coverage', 'backfill'] }),
    onVerdict: ({ check, message, verdict }) => {
      const head = `${verdict.padEnd(VERDICT_COLUMNS)}${check.padEnd(CHECK_COLUMNS)}`;
      const lines = wrapped(message, room, 'whole').join(`\n${' '.repeat(INDENT)}`);
      if (!json) terminal.out(`${head}${lines}\n`);
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
