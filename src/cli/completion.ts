import { OperatorError } from '../runtime/index.js';
import type { ExitReason } from '../runtime/index.js';
import type { Invocation, Terminal } from './command.js';
import { completionScripts } from './completionScripts.js';
import { completionFlags, INSTALL, shells } from './flags.js';
import type { Shell } from './flags.js';
import { installCompletion, shellOf } from './installCompletion.js';
import { PROGRAM } from './parse.js';
import { ownValuesOf } from './ownValues.js';

/** `completion`: prints the script of a shell, or writes it to where the shell looks for it. */
export async function completion(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { system } = ownValuesOf(completionFlags, invocation);
  const [first, second] = invocation.positionals;
  if (first === INSTALL) {
    const shell = second === undefined ? shellOf(terminal.environment) : shellNamed(second);
    const options = { forEveryone: system, environment: terminal.environment };
    terminal.out(await installCompletion(shell, completionScripts[shell](), options));
    return 'done';
  }
  if (second !== undefined || system) throw wrongUse();
  terminal.out(completionScripts[shellNamed(first)]());
  return 'done';
}

function shellNamed(word: string | undefined): Shell {
  const shell = shells.find((name) => name === word);
  if (shell === undefined) throw wrongUse();
  return shell;
}

function wrongUse(): OperatorError {
  const names = shells.join(', ');
  return new OperatorError(
    'usage',
    `Say for which shell: ${PROGRAM} completion ${names}, or ${PROGRAM} completion ${INSTALL} [--system] and one of them.`,
  );
}
