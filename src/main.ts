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

/** What a shell shows of a process that a signal has ended: 128 + its number. */
const signalCodes = { SIGHUP: 129, SIGINT: 130, SIGQUIT: 131, SIGTERM: 143 } as const;
type StopSignal = keyof typeof signalCodes;

/** How long a finished command waits for what still holds the process, before it says so and ends all the same. */
const LINGER_LIMIT_MS = 1_500;
/** How long a command may wait for a disk or database after a signal; then it leaves what a kill would. A daemon has its own limit. */
const STOP_LIMIT_MS = 3_000;
/** The bits of a umask that keep out others than the owner. */
const OTHERS = 0o077;
/** How long the end waits for an output that takes nothing. */
const LAST_WORDS_MS = 1_000;

/** What SIGHUP asks for where a command can do it. */
const reloadListeners: (() => void)[] = [];
/** Told of a bug before it ends the process: the log's last line is to name it. */
const bugListeners: ((error: unknown) => void)[] = [];
const terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor));

/** Those that are gone: then SIGHUP means that nobody is there any more. */
const goneTerminals = (): readonly number[] => terminals.filter((descriptor) => !isatty(descriptor));

// In a cluster of Node.js, as process managers make them, it would listen by asking its parent, which need not answer, and
// not end before it is disconnected.
Object.assign(cluster, { isPrimary: true });
process.channel?.unref();

const stop = new AbortController();
let stoppedBy: StopSignal | undefined;
/** Why the process ends, whatever the command says then. */
let ending: ExitReason | undefined;
for (const signal of Object.keys(signalCodes) as StopSignal[]) {
  process.on(signal, () => {
    const reloads = signal === 'SIGHUP' && goneTerminals().length === 0 ? reloadListeners : [];
    for (const reload of reloads) reload();
    // That it is ignored is what nohup asks for, which Node.js undoes: where there was no terminal, none has gone.
    if (reloads.length > 0 || (signal === 'SIGHUP' && terminals.length === 0)) return;
    if (stop.signal.aborted) endBy(signal);
    stoppedBy = signal;
    stop.abort(new AbortError(signal));
    setTimeout(() => {
      // A daemon may have begun since.
      if (reloadListeners.length === 0) endBy(signal);
    }, STOP_LIMIT_MS).unref();
  });
}
// Log rotation and supervisors send it to be understood as "open the log anew", and it would end the process. Node.js may
// be told to take it (docs/profiling.md).
if (process.listenerCount('SIGUSR2') === 0) {
  process.on('SIGUSR2', () => stderr.write('SIGUSR2 does nothing here: SIGHUP reloads a configuration.\n'));
}

/** Connections from here, open ones and those that are coming about. */
const outward = new Set<Socket>();
subscribe('net.client.socket', (message) => {
  const { socket } = message as { readonly socket: Socket };
  outward.add(socket.once('close', () => outward.delete(socket)));
});

const stdout = openOutput('standard output', { sink: openSink(1), columns: () => screen.columns, onRefused });
const stderr = openOutput('standard error', { sink: openSink(2), columns: () => errScreen.columns });
// A command waits for whoever reads its result, but not for whoever reads its remarks.
stderr.neverWait();
const { stdout: screen, stderr: errScreen } = process;
// The size of a terminal that is gone cannot be read.
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
  // Of a terminal without a size, as containers and remote commands may have: that of old.
  columns: () => stdout.columns ?? 80,
  rows: () => screen.rows || 24,
  errTerminal: errScreen.isTTY && isLive ? stderr : undefined,
  onKey,
  onBug: (listener) => void bugListeners.push(listener),
  onReload: (listener) => void reloadListeners.push(listener),
  signal: stop.signal,
};

/** Resolves soon, and holds up no end. */
const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS).unref());
/** Resolves a moment after the process was told to end: no reader is waited for any longer. */
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

/** A reader that went away (`… | head`) is no fault of ours, nor is a full disk. */
function onRefused(error: NodeJS.ErrnoException): void {
  // Nobody is there to read: the SIGHUP that comes with it ends the command in good order.
  if (goneTerminals().length > 0) return;
  if (isReaderGone(error)) {
    process.exitCode = 0;
    exit();
  }
  // Said once: a command that writes line by line is refused each of them.
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

/** What the operator can do about an error that the process meets for lack of something; `undefined` for any other. */
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
  for (const tell of bugListeners.splice(0)) tell(lack ?? error);
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const fault = `This is a fault of the program. Please report it:\n${withoutCredentials(trace)}`;
  stderr.write(`${lack?.message ?? fault}\n`);
  void endWith(lack?.exit ?? 'bug');
}

try {
  checkSurroundings();
  process.exitCode = exitCodeOf(await runCommandLine(process.argv.slice(2), terminal));
} catch (error) {
  // A command that was stopped before it was done: whoever started it is to know.
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
// The gRPC library closes no connection that is still coming about: behind a firewall it would hold the process for minutes.
for (const socket of outward) socket.destroy();
endDespiteLeftovers();
await lastWords();
leaveTerminals();

/** Directories that are created may always be entered. Expected errors: OperatorError (`storage`): the current directory is gone, or Node.js puts U+FFFD into its path. */
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

/** The timer does not hold the process itself: it fires only when something else does. */
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

/** Waits for the outputs: for the reader of a result until a signal ends that, else for a moment. A file refuses it only now. */
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
  // No process exits while one of its threads waits for the system.
  if (stdout.isWriting() || stderr.isWriting()) endBy(stoppedBy ?? 'SIGTERM');
  process.exit();
}

/** Node.js gives terminals back at its end, and aborts where one is gone. */
function leaveTerminals(): void {
  for (const descriptor of goneTerminals()) closeSync(descriptor);
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
