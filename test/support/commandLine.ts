import { exitCodeOf } from '../../src/app/index.js';
import { withoutCredentials } from '../../src/runtime/index.js';
import { runInProcess } from './terminal.js';

/**
 * As `runProgram`, in this process: for commands of which the program's own start and end are proven elsewhere. A process
 * takes a second to load what it needs, this takes none.
 */
export async function runCommand(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const { exit, out, err, message } = await runInProcess(args, { environment });
  const refusal = message === '' ? '' : `${withoutCredentials(message)}\n`;
  return { code: exitCodeOf(exit), stdout: out, stderr: err + refusal };
}
