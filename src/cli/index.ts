import { programVersion, type ExitReason } from '../runtime/index.js';
import type { Invocation, Terminal } from './command.js';

export type { Terminal } from './command.js';
export { lacks } from './lacks.js';

/**
 * Runs one command line (without the program's name), loading only what that command needs. Expected errors:
 * OperatorError, to be printed as is. Anything else is a bug.
 */
export async function runCommandLine(args: readonly string[], terminal: Terminal): Promise<ExitReason> {
  if (['version', '--version', '-V', '-v'].includes(args[0] ?? '')) {
    terminal.out(`${programVersion}\n`);
    return 'done';
  }
  const [{ commands }, { parse }] = await Promise.all([
    import('./commands.js'),
    import('./arguments/parse.js'),
  ]);
  const parsed = parse(commands, args, terminal);
  if (typeof parsed === 'string') return parsed;
  // A SIGHUP before `start` is loaded must not end it, and needs no reload: the configuration is read afterwards.
  if (parsed.command.name === 'start') terminal.onReload(() => undefined);
  const run = await parsed.command.load();
  return run(parsed.invocation as Invocation<never>, terminal);
}
