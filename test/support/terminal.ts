import { runCommandLine, type Terminal } from '../../src/cli/index.js';
import { openOutput, OperatorError, type ExitReason, type Output } from '../../src/runtime/index.js';
import type { Sink } from '../../src/runtime/output/openSink.js';

export interface Ran {
  readonly exit: ExitReason;
  readonly out: string;
  readonly err: string;
  /** Of the refusal, if it was one. */
  readonly message: string;
}

/** An output that keeps what is printed, and always takes it. */
export function remembering(keep: (text: string) => void): Output {
  const write: Sink['write'] = (buffers, done) => {
    const bytes = Buffer.concat(buffers);
    keep(bytes.toString('utf8'));
    done(null, bytes.length);
  };
  return openOutput('memory', { sink: { write, chunkBytes: Infinity } });
}

/** A process that only remembers what is printed; no terminal, unless the test says so. */
export function recordingTerminal(change: Partial<Terminal> = {}) {
  const printed = { out: '', err: '' };
  const terminal: Terminal = {
    out: (text) => void (printed.out += text),
    err: (text) => void (printed.err += text),
    write: (bytes) => {
      printed.out += Buffer.from(bytes).toString('utf8');
      return Promise.resolve(true);
    },
    outputs: [remembering((text) => (printed.out += text)), remembering((text) => (printed.err += text))],
    environment: {},
    isTerminal: false,
    isLive: change.isTerminal ?? false,
    columns: () => 80,
    rows: () => 24,
    errTerminal: undefined,
    onKey: () => () => undefined,
    onBug: () => undefined,
    onReload: () => undefined,
    signal: new AbortController().signal,
    ...change,
  };
  return { terminal, printed };
}

/** Runs a command line without a process, to its end. */
export async function runInProcess(args: readonly string[], change: Partial<Terminal> = {}): Promise<Ran> {
  const { terminal, printed } = recordingTerminal(change);
  try {
    const exit = await runCommandLine(args, terminal);
    return { exit, ...printed, message: '' };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { exit: error.exit, ...printed, message: error.message };
  }
}
