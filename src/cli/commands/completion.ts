import { OperatorError } from '../../runtime/index.js';
import type { Command, Run } from '../command.js';
import { completionScripts } from '../completion/completionScripts.js';
import { completionFlags, INSTALL, ownValuesOf, shells } from '../arguments/flags.js';
import type { Shell } from '../arguments/flags.js';
import { installCompletion, shellOf } from '../completion/installCompletion.js';
import { PROGRAM } from '../arguments/parse.js';

/** `completion`: prints a shell's script for these commands, or writes it to where the shell looks for it. */
export function completionOf(commands: readonly Command[]): Run {
  return async (invocation, terminal) => {
    const { system } = ownValuesOf(completionFlags, invocation);
    const [first, second] = invocation.positionals;
    if (first === INSTALL) {
      const shell = second === undefined ? shellOf(terminal.environment) : shellNamed(second);
      const options = { forEveryone: system, environment: terminal.environment };
      terminal.out(await installCompletion(shell, completionScripts[shell](commands), options));
      return 'done';
    }
    if (second !== undefined || system) throw wrongUse();
    terminal.out(completionScripts[shellNamed(first)](commands));
    return 'done';
  };
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
