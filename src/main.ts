#!/usr/bin/env node
import { isatty } from 'node:tty';
import { outputError, runCommandLine, writeAll } from './cli/index.js';
import type { Terminal } from './cli/index.js';
import {
  AbortError,
  exitCodeOf,
  isAbort,
  messageOf,
  OperatorError,
  withoutCredentials,
} from './runtime/index.js';

/** What a shell shows of a process that a signal has ended: 128 + its number. */
const signalCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
type StopSignal = keyof typeof signalCodes;

/** How long a finished command waits for what still holds the process, before it says so and ends all the same. */
const LINGER_LIMIT_MS = 1_500;

/** What SIGHUP asks for where a command can do it. */
const reloadListeners: (() => void)[] = [];
const terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor));

/** True when the terminal is gone: then SIGHUP means that nobody is there any more. */
function hasHungUp(): boolean {
  return terminals.some((descriptor) => !isatty(descriptor));
}

const stop = new AbortController();
let stoppedBy: StopSignal | undefined;
for (const signal of Object.keys(signalCodes) as StopSignal[]) {
  process.on(signal, () => {
    if (signal === 'SIGHUP' && reloadListeners.length > 0 && !hasHungUp()) {
      for (const reload of reloadListeners) reload();
      return;
    }
    if (stop.signal.aborted) endBy(signal);
    stoppedBy = signal;
    stop.abort(new AbortError(signal));
  });
}

/** The bits of a umask that keep out others than the owner. */
const OTHERS = 0o077;
const STDOUT = 1;
const STDOUT_NAME = 'to standard output';

// A reader that went away (`… | head`) is no fault of ours, nor is a full disk; everything else nobody caught is a bug.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Nobody is there to read: the SIGHUP that comes with it ends the command in good order.
  if (hasHungUp()) return;
  if (error.code === 'EPIPE') process.exit(0);
  const known = outputError(error, STDOUT_NAME);
  if (!(known instanceof OperatorError)) throw error;
  process.stderr.write(`${known.message}\n`);
  process.exit(exitCodeOf(known.exit));
});
process.stderr.on('error', (error: NodeJS.ErrnoException) => {
  if (!hasHungUp()) throw error;
});
process.on('uncaughtException', (error) => dieOfBug(error));
process.on('unhandledRejection', (error) => dieOfBug(error));

/** Told of a bug before it ends the process: the log's last line is to name it. */
const bugListeners: ((error: unknown) => void)[] = [];
const isLive = process.env['TERM'] !== 'dumb';

const terminal: Terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  environment: process.env,
  write: (bytes) => writeAll(STDOUT, bytes, STDOUT_NAME),
  isTerminal: process.stdout.isTTY,
  isLive: process.stdout.isTTY && isLive,
  columns: () => process.stdout.columns,
  rows: () => process.stdout.rows,
  errTerminal: process.stderr.isTTY && isLive ? process.stderr : undefined,
  onKey,
  onBug: (listener) => void bugListeners.push(listener),
  onReload: (listener) => void reloadListeners.push(listener),
  signal: stop.signal,
};

function onKey(listener: (key: string) => void): () => void {
  const { stdin } = process;
  if (!stdin.isTTY) return () => undefined;
  const onData = (data: Buffer): void => {
    for (const key of data.toString('utf8')) listener(key);
  };
  stdin.setRawMode(true).on('data', onData).resume();
  return () => {
    stdin.off('data', onData).pause();
    stdin.setRawMode(false);
  };
}

function dieOfBug(error: unknown): never {
  for (const tell of bugListeners) tell(error);
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`This is a fault of the program. Please report it:\n${withoutCredentials(trace)}\n`);
  process.exit(exitCodeOf('bug'));
}

try {
  checkSurroundings();
  process.exitCode = exitCodeOf(await runCommandLine(process.argv.slice(2), terminal));
} catch (error) {
  // A command that was stopped before it was done: whoever started it is to know.
  if (stoppedBy !== undefined && isAbort(error)) endBy(stoppedBy);
  if (!(error instanceof OperatorError)) dieOfBug(error);
  process.stderr.write(`${withoutCredentials(error.message)}\n`);
  process.exitCode = exitCodeOf(error.exit);
}
// Node.js aborts at its end where it cannot give the terminal back.
if (hasHungUp()) endBy('SIGHUP');
endDespiteLeftovers();

/** Directories that are created may always be entered. Expected errors: OperatorError (`storage`): there is no current directory. */
function checkSurroundings(): void {
  process.umask(process.umask(OTHERS) & OTHERS);
  try {
    process.cwd();
  } catch (error) {
    throw new OperatorError(
      'storage',
      `The current directory is gone (${messageOf(error)}). Change to one that exists, and run the command again.`,
    );
  }
}

/** The timer does not hold the process itself: it fires only when something else does. A slow reader is waited for. */
function endDespiteLeftovers(): void {
  setTimeout(() => {
    if (process.stdout.writableLength > 0) {
      endDespiteLeftovers();
      return;
    }
    const held = process.getActiveResourcesInfo().join(', ') || 'a read or a write of the disk';
    process.stderr.write(`Ended although these were still open: ${held}.\n`);
    if (stop.signal.aborted) endBy(stoppedBy ?? 'SIGTERM');
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
