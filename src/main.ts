#!/usr/bin/env node
import cluster from 'node:cluster';
import { subscribe } from 'node:diagnostics_channel';
import { closeSync } from 'node:fs';
import type { Socket } from 'node:net';
import { isatty } from 'node:tty';
import { lacks, runCommandLine, type Terminal } from './cli/index.js';
import { AbortError, exitCodeOf, isAbort, isReaderGone, messageOf, OperatorError } from './runtime/index.js';
import { openOutput, openSink, outOfDescriptors, outputError, whenAborted } from './runtime/index.js';
import { withoutCredentials, type ExitReason } from './runtime/index.js';

/** The exit code a shell shows for a process that a signal ended: 128 + its number. */
const signalCodes = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143 } as const;
type StopSignal = keyof typeof signalCodes;

/** How long a finished command waits for open resources before it reports them and exits anyway. */
const LINGER_LIMIT_MS = 1_500;
/** How long a command may wait for a disk or database after a signal; then it ends as if killed. A daemon has its own limit. */
const STOP_LIMIT_MS = 3_000;
/** The umask bits that deny access to everyone but the owner. */
const OTHERS = 0o077;
/** How long the exit waits for an output that accepts nothing. */
const LAST_WORDS_MS = 1_000;

/** Registered by commands that can reload; called on SIGHUP. */
const reloadListeners: (() => void)[] = [];
/** Called with a bug before it ends the process, so that the log's last line names it. */
const bugListeners: ((error: unknown) => void)[] = [];
const terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor));

/** The terminals that have closed: if any has, SIGHUP means that the user is gone. */
const goneTerminals = (): readonly number[] => terminals.filter((descriptor) => !isatty(descriptor));

// As a worker of a Node.js cluster, which process managers create, it would listen through its parent, which may not answer,
// and could not end before it disconnects.
Object.assign(cluster, { isPrimary: true });
process.channel?.unref();

const stop = new AbortController();
let stoppedBy: StopSignal | undefined;
/** Why the process ends; overrides the exit code of the command. */
let ending: ExitReason | undefined;
for (const signal of Object.keys(signalCodes) as StopSignal[]) {
  process.on(signal, () => {
    const reloads = signal === 'SIGHUP' && goneTerminals().length === 0 ? reloadListeners : [];
    for (const reload of reloads) reload();
    // nohup ignores SIGHUP, which Node.js undoes: without a terminal at the start, none can have closed.
    if (reloads.length > 0 || (signal === 'SIGHUP' && terminals.length === 0)) return;
    if (stop.signal.aborted) endBy(signal);
    stoppedBy = signal;
    stop.abort(new AbortError(signal));
    setTimeout(() => {
      // A daemon may have started since.
      if (reloadListeners.length === 0) endBy(signal);
    }, STOP_LIMIT_MS).unref();
  });
}
// Log rotation and supervisors send it to mean "reopen the log", but by default it ends the process. Node.js may be configured
// to handle it (docs/profiling.md).
if (process.listenerCount('SIGUSR2') === 0) {
  process.on('SIGUSR2', () => stderr.write('SIGUSR2 does nothing here: SIGHUP reloads a configuration.\n'));
}

/** Outgoing connections, open or connecting. */
const outward = new Set<Socket>();
subscribe('net.client.socket', (message) => {
  const { socket } = message as { readonly socket: Socket };
  outward.add(socket.once('close', () => outward.delete(socket)));
});

const stdout = openOutput('standard output', { sink: openSink(1), columns: () => screen.columns, onRefused });
const stderr = openOutput('standard error', { sink: openSink(2), columns: () => errScreen.columns });
// A command waits for the reader of its result, but not for the reader of its remarks.
stderr.neverWait();
const { stdout: screen, stderr: errScreen } = process;
// The size of a closed terminal cannot be read.
for (const stream of [screen, errScreen]) stream.on('error', () => undefined);
process.on('exit', () => {
  if (ending !== undefined) process.exitCode = exitCodeOf(ending);
});
process.on('uncaughtException', dieOfBug);
process.on('unhandledRejection', dieOfBug);

const isLive = process.env['TERM'] !== 'dumb';
const terminal: Terminal = {
  out: (text) => stdout.write(text),
  err: (text) => stderr.write(text),
  write,
  outputs: [stdout, stderr],
  environment: process.env,
  isTerminal: screen.isTTY,
  isLive: screen.isTTY && isLive,
  // Terminals of containers and remote commands may report no size: assume the classic one.
  columns: () => stdout.columns ?? 80,
  rows: () => screen.rows || 24,
  errTerminal: errScreen.isTTY && isLive ? stderr : undefined,
  onKey,
  onBug: (listener) => void bugListeners.push(listener),
  onReload: (listener) => void reloadListeners.push(listener),
  signal: stop.signal,
};

/** Resolves after LAST_WORDS_MS, and does not keep the process alive. */
const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS).unref());
/** Resolves a moment after the stop signal: from then on no reader is waited for. */
const givenUp = whenAborted(stop.signal).then(aMoment);

async function write(bytes: Uint8Array): Promise<boolean> {
  try {
    await Promise.race([stdout.put(bytes), givenUp.then(() => stop.signal.throwIfAborted())]);
    return true;
  } catch (error) {
    if (isReaderGone(error)) return false;
    throw outputError(error, `to ${stdout.name}`);
  }
}

/** A reader that has exited (`… | head`) or a full disk is not a bug. */
function onRefused(error: NodeJS.ErrnoException): void {
  // The terminal has closed: the SIGHUP that comes with it ends the command in good order.
  if (goneTerminals().length > 0) return;
  if (isReaderGone(error)) {
    process.exitCode = 0;
    exit();
  }
  // Reported once: a command that writes line by line is refused every line.
  if (ending === undefined) stderr.write(`${messageOf(outputError(error, `to ${stdout.name}`))}\n`);
  void endWith('storage');
}

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

/** An error caused by a missing resource, with what the operator can do; `undefined` for any other. */
function lackOf(error: unknown): OperatorError | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code = '', message, ...about } = cause as NodeJS.ErrnoException & Record<string, unknown>;
    const known = lacks.find(({ said }) => said.test(code) || said.test(message));
    if (known === undefined) continue;
    const words = [message, about['permission'], about['resource']].filter(Boolean).join(', ');
    const exit = outOfDescriptors(cause) === undefined ? 'configuration' : 'unavailable';
    return new OperatorError(exit, `${known.lack} (${words}): ${known.advice}.`);
  }
  return undefined;
}

function dieOfBug(error: unknown): void {
  const lack = lackOf(error);
  for (const report of bugListeners.splice(0)) report(lack ?? error);
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const fault = `This is a fault of the program. Please report it:\n${withoutCredentials(trace)}`;
  stderr.write(`${lack?.message ?? fault}\n`);
  void endWith(lack?.exit ?? 'bug');
}

try {
  checkSurroundings();
  process.exitCode = exitCodeOf(await runCommandLine(process.argv.slice(2), terminal));
} catch (error) {
  // Stopped before it was done: the exit status must show that.
  if (stoppedBy !== undefined && isAbort(error)) endBy(stoppedBy);
  const known = error instanceof OperatorError ? error : lackOf(error);
  if (known !== undefined) {
    stderr.write(`${withoutCredentials(known.message)}\n`);
    process.exitCode = exitCodeOf(known.exit);
  } else {
    dieOfBug(error);
  }
}
if (stoppedBy === 'SIGHUP' && goneTerminals().length > 0) endBy('SIGHUP');
// The gRPC library does not close a connection that is still connecting: behind a firewall it would keep the process for minutes.
for (const socket of outward) socket.destroy();
endDespiteLeftovers();
await lastWords();
leaveTerminals();

/** Lets the owner enter every directory that is created. Expected errors: OperatorError (`storage`): the current directory is gone, or its path is not UTF-8. */
function checkSurroundings(): void {
  process.umask(process.umask(OTHERS) & OTHERS);
  try {
    if (process.cwd().includes('\ufffd')) throw new Error(process.cwd());
  } catch (error) {
    throw new OperatorError(
      'storage',
      `The current directory is gone, or its path is not UTF-8 (${messageOf(error)}). Change to another one, and run the command again.`,
    );
  }
}

/** The timer does not keep the process alive: it fires only if something else does. */
function endDespiteLeftovers(): void {
  setTimeout(() => {
    // A slow reader is waited for.
    if (stdout.isBehind && !stdout.isBounded() && !stop.signal.aborted) {
      endDespiteLeftovers();
      return;
    }
    const held = process.getActiveResourcesInfo().join(', ') || 'a read or a write of the disk';
    stderr.write(`Ended although these were still open: ${held}.\n`);
    if (stop.signal.aborted) endBy(stoppedBy ?? 'SIGTERM');
    void lastWords().then(exit);
  }, LINGER_LIMIT_MS).unref();
}

/** Flushes the outputs: waits for the reader of a result until a signal, otherwise for a moment. A file may refuse only now. */
async function lastWords(): Promise<void> {
  const written = stdout.put().catch(onRefused);
  await Promise.all([
    Promise.race([written, stdout.isBounded() ? aMoment() : givenUp]),
    Promise.race([stderr.put(), aMoment()]),
  ]);
  stdout.close();
  stderr.close();
}

async function endWith(reason: ExitReason): Promise<void> {
  ending ??= reason;
  await lastWords();
  exit();
}

function exit(): never {
  leaveTerminals();
  // A process cannot exit while one of its threads is blocked in the system.
  if (stdout.isWriting() || stderr.isWriting()) endBy(stoppedBy ?? 'SIGTERM');
  process.exit();
}

/** Node.js restores terminals when it exits, and aborts if one has closed. */
function leaveTerminals(): void {
  for (const descriptor of goneTerminals()) closeSync(descriptor);
}

/**
 * Ends as the signal itself would. A normal exit waits for every thread of the store, and one that writes to a hanging disk
 * never returns. Process 1 of a container cannot signal itself: it exits, if it can.
 */
function endBy(signal: StopSignal): never {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  process.exit(signalCodes[signal]);
}
