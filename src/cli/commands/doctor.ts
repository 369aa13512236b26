import { loadDoctor } from '../../app/index.js';
import type { Verdict } from '../../app/index.js';
import { systemClock } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { doctorFlags, ownValuesOf } from '../arguments/flags.js';
import { summaryOf, verdictLines } from '../output/doctorPage.js';
import { checkEndpoints, configOf } from '../arguments/settings.js';

/** `doctor`: looks at machine, nodes and store as `start` would find them, and says what to change. */
export async function doctor(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { json } = ownValuesOf(doctorFlags, invocation);
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
  const exit = exitOf(verdicts);
  if (json) terminal.out(`${JSON.stringify({ verdicts, exit })}\n`);
  else terminal.out(`${summaryOf(verdicts)}\n`);
  return exit;
}

/** The first problem decides; warnings do not count. */
function exitOf(verdicts: readonly Verdict[]): ExitReason {
  return verdicts.find(({ verdict }) => verdict === 'problem')?.exit ?? 'done';
}
