import { parse } from '../../src/cli/arguments/parse.js';
import { commands } from '../../src/cli/commands.js';
import { start } from '../../src/cli/commands/start.js';
import type { Terminal } from '../../src/cli/index.js';
import { AbortError, exitCodeOf, messageOf } from '../../src/runtime/index.js';
import { OperatorError, withoutCredentials } from '../../src/runtime/index.js';
import { certificatesHere, type Verdicts } from './certificates.js';
import { Printed } from './program.js';
import { readersHere } from './readers.js';
import { recordingTerminal, remembering } from './terminal.js';

/** `start` with all its threads in the process of the test: no second of a processor goes into loading what it needs. */
export class HousedProgram extends Printed {
  /** Of all daemons in this process: those that follow one chain ask the same. */
  static readonly #verdicts: Verdicts = new Map();
  readonly exited: Promise<number>;
  /** The same, once there is one. */
  endedWith: number | undefined;
  readonly #stop = new AbortController();
  readonly #reloading: (() => void)[] = [];

  constructor(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    super();
    // Libraries look at the process.
    const foreign = Object.keys(environment).find((name) => !name.startsWith('FCI_'));
    if (foreign !== undefined) throw new Error(`${foreign} wants a process of its own`);
    const { terminal } = recordingTerminal({
      outputs: [
        remembering((text) => this.print('stdout', text)),
        remembering((text) => this.print('stderr', text)),
      ],
      err: (text) => this.print('stderr', text),
      environment,
      onReload: (listener) => void this.#reloading.push(listener),
      signal: this.#stop.signal,
    });
    const startCertificates = () => certificatesHere(HousedProgram.#verdicts);
    this.exited = run(args, terminal, { startReader: readersHere, startCertificates })
      .catch((error: unknown) => {
        const known = error instanceof OperatorError;
        const text = known ? error.message : error instanceof Error ? error.stack : messageOf(error);
        this.print('stderr', `${withoutCredentials(text ?? '')}\n`);
        return exitCodeOf(known ? error.exit : 'bug');
      })
      .then((code) => (this.endedWith = code))
      .finally(() => this.end());
  }

  /** As the signal does that asks a process to stop. */
  stop(signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM'): Promise<number> {
    this.#stop.abort(new AbortError(signal));
    return this.exited;
  }

  reload(): void {
    for (const reload of this.#reloading) reload();
  }
}

async function run(
  args: readonly string[],
  terminal: Terminal,
  ports: Parameters<typeof start>[2],
): Promise<number> {
  const parsed = parse(commands, args, terminal);
  if (typeof parsed === 'string') return exitCodeOf(parsed);
  return exitCodeOf(await start(parsed.invocation, terminal, ports));
}
