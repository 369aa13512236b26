import { programVersion } from '../app/index.js';
import { suggestion } from '../config/index.js';
import { OperatorError, quoted } from '../runtime/index.js';
import type { ExitReason } from '../runtime/index.js';
import type { Command, Terminal } from './command.js';
import { configCommand } from './config.js';
import { devnetCommand } from './devnet.js';
import { explainCommand } from './explain.js';
import { exportCommand } from './export.js';
import { forgetCommand } from './forget.js';
import { getCommand } from './get.js';
import { commandHelp, overview, PROGRAM } from './help.js';
import { parseInvocation } from './parse.js';
import { repairCommand } from './repair.js';
import { rewindCommand } from './rewind.js';
import { startCommand } from './start.js';
import { statusCommand } from './status.js';
import { verifyCommand } from './verify.js';

export type { Terminal } from './command.js';
export { outputError, writeAll } from './output.js';

const commands: readonly Command[] = [
  startCommand,
  statusCommand,
  getCommand,
  explainCommand,
  exportCommand,
  verifyCommand,
  repairCommand,
  rewindCommand,
  forgetCommand,
  configCommand,
  devnetCommand,
];

/**
 * Runs one command line (without the program's own name). Expected errors: OperatorError, to be printed as it is.
 * Anything else is a bug.
 */
export async function runCommandLine(args: readonly string[], terminal: Terminal): Promise<ExitReason> {
  const [name, ...rest] = args;
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    const page = overview(commands, programVersion());
    if (name !== undefined) terminal.out(page);
    else terminal.err(page);
    return name === undefined ? 'usage' : 'done';
  }
  if (name === '--version' || name === '-v') {
    terminal.out(programVersion() + '\n');
    return 'done';
  }
  const command = commands.find((candidate) => candidate.name === name);
  if (command === undefined) {
    const known = commands.map((candidate) => candidate.name);
    throw new OperatorError(
      'usage',
      `Unknown command ${quoted(name)}.${suggestion(name, known)} See ${PROGRAM} --help.`,
    );
  }
  const invocation = parseInvocation(command, rest);
  if (invocation === undefined) {
    terminal.out(commandHelp(command));
    return 'done';
  }
  return command.run(invocation, terminal);
}
