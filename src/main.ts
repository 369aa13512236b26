#!/usr/bin/env node
import { exitCodeOf } from './app/index.js';
import { runCommandLine } from './cli/index.js';
import type { Terminal } from './cli/index.js';
import { OperatorError, withoutCredentials } from './runtime/index.js';

/** What a shell shows of a process that a signal has ended: 128 + its number. */
const signalCodes = { SIGINT: 130, SIGTERM: 143 } as const;
type StopSignal = keyof typeof signalCodes;

/** How long a finished command waits for what still holds the process, before it says so and ends all the same. */
const LINGER_LIMIT_MS = 1_500;

const stop = new AbortController();
for (const signal of Object.keys(signalCodes) as StopSignal[]) {
  process.on(signal, () => {
    if (stop.signal.aborted) endBy(signal);
    stop.abort();
  });
}

// A reader that went away (`… | head`) is no fault of ours; everything else nobody caught is a bug.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.on('uncaughtException', (error) => dieOfBug(error));
process.on('unhandledRejection', (error) => dieOfBug(error));

const terminal: Terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  environment: process.env,
  isTerminal: process.stdout.isTTY,
  columns: () => process.stdout.columns,
  signal: stop.signal,
};

function dieOfBug(error: unknown): never {
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`This is a fault of the program. Please report it:\n${withoutCredentials(trace)}\n`);
  process.exit(exitCodeOf('bug'));
}

try {
  process.exitCode = exitCodeOf(await runCommandLine(process.argv.slice(2), terminal));
} catch (error) {
  if (!(error instanceof OperatorError)) dieOfBug(error);
  process.stderr.write(`${withoutCredentials(error.message)}\n`);
  process.exitCode = exitCodeOf(error.exit);
}
endDespiteLeftovers();

/** The timer does not hold the process itself: it fires only when something else does. A slow reader is waited for. */
function endDespiteLeftovers(): void {
  setTimeout(() => {
    if (process.stdout.writableLength > 0) {
      endDespiteLeftovers();
      return;
    }
    const held = process.getActiveResourcesInfo().join(', ') || 'a read or a write of the disk';
    process.stderr.write(`Ended although these were still open: ${held}.\n`);
    if (stop.signal.aborted) endBy('SIGTERM');
    process.exit();
  }, LINGER_LIMIT_MS).unref();
}

/**
 * Ends as the signal itself would. An exit waits for every thread of the store, and one that writes to a disk that hangs
 * never comes back. Process 1 of a container cannot send itself a signal: it exits, if it can.
 */
function endBy(signal: StopSignal): never {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  process.exit(signalCodes[signal]);
}
