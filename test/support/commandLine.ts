import { exitCodeOf } from '../../src/app/index.js';
import { withoutCredentials } from '../../src/runtime/index.js';
import { runInProcess } from './terminal.js';

/** As `runProgram`, in this process: it loads nothing anew. For commands whose start and end as a process are proven elsewhere. */
export async function runCommand(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const { exit, out, err, message } = await runInProcess(args, { environment });
  const refusal = message === '' ? '' : `${withoutCredentials(message)}\n`;
  return { code: exitCodeOf(exit), stdout: out, stderr: err + refusal };
}
