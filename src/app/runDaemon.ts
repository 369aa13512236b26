import { redirectGrpcLog } from '../access/index.js';
import type { DaemonConfig } from '../config/index.js';
import { createLogger, createMetrics, LiveTerminal, loadPrettyLine } from '../observability/index.js';
import type { ProgramLogger, TerminalStream } from '../observability/index.js';
import {
  abortReason,
  exitCodeOf,
  messageOf,
  OperatorError,
  programVersion,
  systemClock,
} from '../runtime/index.js';
import type { ExitReason, Loss, Output } from '../runtime/index.js';
import type { Reloading } from './reloadWhenWanted.js';
import { indexAndServe } from './indexAndServe.js';
import type { DaemonPorts } from './indexAndServe.js';
import { openLifecycle } from './lifecycle/openLifecycle.js';
import { openServiceNotifier } from './lifecycle/openServiceNotifier.js';

/** What the daemon needs from its process. */
export interface Host {
  /** Where the log goes. */
  readonly stdout: TerminalStream;
  /** Standard output and standard error. The daemon outlives whoever reads them. */
  readonly outputs?: readonly Output[];
  /** True for a terminal on which a line is to be redrawn. */
  readonly isLive: boolean;
  /** Aborted by the operator, to stop gracefully; the message of its reason is the name of the signal. */
  readonly signal: AbortSignal;
  /** Registers a listener for an uncaught error, which is called before the process ends. */
  readonly onBug?: (listener: (error: unknown) => void) => void;
  /** Absent: the configuration stays as it is. */
  readonly reloading?: Reloading;
}

/**
 * Runs the daemon until it is stopped, reaches its stop height or fails. Expected errors: OperatorError; whatever else it
 * throws is a bug.
 */
export async function runDaemon(
  config: DaemonConfig,
  host: Host,
  ports: DaemonPorts = {},
): Promise<ExitReason> {
  const clock = systemClock;
  const terminal = host.isLive ? new LiveTerminal({ stream: host.stdout }) : undefined;
  const logger = (ports.createLogger ?? createLogger)({
    level: config.log.level,
    toLine: config.log.format === 'pretty' ? await prettyLineFor(host) : undefined,
    destination: terminal ?? host.stdout,
  });
  const metrics = createMetrics({ version: programVersion(), node: process.version });
  const { outputs = [], reloading } = host;
  const onLost = (lines: number): void => metrics.logLinesLost.inc(lines);
  for (const output of outputs) output.neverWait({ onLost });
  outputs[0]?.neverWait({ onLost, say: (loss) => logger.warn(lossFields(loss), 'log lines were lost') });
  redirectGrpcLog({ logger });
  const lifecycle = openLifecycle({ clock, logger });
  const print = (text: string): void => void (terminal ?? host.stdout).write(text);
  // In the pretty format, the message on standard error is enough.
  const tellEnd = (error: unknown): void => {
    if (config.log.format === 'json') logFatal(logger, error);
  };
  host.onBug?.(tellEnd);
  const onStop = (): void => {
    const { message: by } = abortReason(host.signal);
    logger.info({ signal: by, stopWithinSeconds: 10 }, 'stopping; a second signal forces');
    lifecycle.stop();
  };
  host.signal.addEventListener('abort', onStop, { once: true });
  const { signal } = lifecycle;
  const notifier = openServiceNotifier(process.env, { clock, logger, signal, onBug: host.onBug });
  try {
    const own = { ports, lifecycle, logger, metrics, notifier, outputs, print, reloading, terminal };
    await lifecycle.waitFor('work in hand', indexAndServe(config, own));
    host.signal.removeEventListener('abort', onStop);
    await lifecycle.close();
  } catch (error) {
    // The process logs an unexpected error when it ends.
    if (error instanceof OperatorError) tellEnd(error);
    await notifier?.close(messageOf(error));
    throw error;
  }
  await notifier?.close();
  logger.info({}, 'stopped');
  return 'done';
}

/** The log's last line: the message for the operator, and the exit code with its name. */
function logFatal(logger: ProgramLogger, error: unknown): void {
  const exit = error instanceof OperatorError ? error.exit : 'bug';
  const stack = error instanceof Error && exit === 'bug' ? { stack: error.stack } : {};
  logger.fatal({ exitCode: exitCodeOf(exit), exit, ...stack }, messageOf(error));
}

function lossFields({ lines, sinceMs, reason }: Loss): object {
  return { lines, since: new Date(sinceMs).toISOString(), reason };
}

async function prettyLineFor({ isLive }: Host): Promise<(json: string) => string> {
  const { prettyLine } = await loadPrettyLine();
  return prettyLine({ colorize: isLive && (process.env['NO_COLOR'] ?? '') === '' });
}
