import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import type { Logger } from '../../observability/index.js';
import { asError, every, messageOf, within, type Clock, type Timer } from '../../runtime/index.js';

/** How long slow work of a start may take from each message on. */
const MORE_TIME_MS = 120_000;
/** Signs of life per watchdog period: one may be lost. */
const SIGNS_OF_LIFE = 2;

/** Logged when messages do not reach the service manager. */
const CANNOT_TELL = 'the service manager cannot be told how the daemon is';
const SILENT_ADVICE =
  'fix this, or set Type=exec and WatchdogSec=0: without messages the service manager ends the daemon';

/** Characters that may wait for a helper that is stuck; further messages are dropped. */
const MAX_WAITING_CHARACTERS = 8_192;
/** How long the last messages may take before they are dropped. */
const LAST_MESSAGES_MS = 1_000;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The service manager named in the environment, which speaks the protocol of systemd's `sd_notify`; `undefined` if none
 * expects messages. It ends the process after `watchdogMs` without a sign of life, if there is such a limit.
 */
export function serviceManagerOf(
  { NOTIFY_SOCKET: socket = '', WATCHDOG_PID: meantFor = '', WATCHDOG_USEC: limit = '' }: Environment,
  pid: number,
): { readonly watchdogMs?: number } | undefined {
  if (socket === '') return undefined;
  // It may be for another process, such as a wrapper that started this one.
  if (meantFor !== '' && meantFor !== String(pid)) return {};
  const watchdogMs = Number(limit) / 1_000;
  return Number.isFinite(watchdogMs) && watchdogMs > 0 ? { watchdogMs } : {};
}

/** Messages to the service manager. */
export type ServiceNotifier = NonNullable<ReturnType<typeof openServiceNotifier>>;

/**
 * Tells the service manager that started this process how the daemon is: alive, ready, stopping. Signs of life come from a timer
 * of the event loop, so they stop when it hangs. A message that cannot be sent delays nothing, and is logged once. `undefined`
 * if no service manager expects messages.
 */
export function openServiceNotifier(
  environment: Environment,
  dependencies: {
    readonly clock: Clock;
    readonly logger: Logger;
    /** Aborted when the daemon stops. Signs of life continue until this is closed. */
    readonly signal: AbortSignal;
    readonly startHelper?: typeof startNotifyHelper;
  },
) {
  const { clock, logger, signal, startHelper = startNotifyHelper } = dependencies;
  const manager = serviceManagerOf(environment, process.pid);
  if (manager === undefined) return undefined;
  let hasFailed = false;
  const helper = startHelper((error) => {
    if (hasFailed) return;
    hasFailed = true;
    logger.warn({ error: messageOf(error), advice: SILENT_ADVICE }, CANNOT_TELL);
  }, clock);
  const repeat = (message: string, everyMs: number): Timer => {
    helper.send(message);
    return every(clock, everyMs, () => helper.send(message));
  };
  const { watchdogMs } = manager;
  const signs = watchdogMs === undefined ? undefined : repeat('WATCHDOG=1', watchdogMs / SIGNS_OF_LIFE);
  signal.addEventListener('abort', () => helper.send('STOPPING=1'), { once: true });
  return {
    /** The daemon serves. */
    ready: (): void => helper.send('READY=1'),
    /** Asks for more time to start, again and again until the work ends. */
    slow: async (work: Promise<void>): Promise<void> => {
      const asking = repeat(`EXTEND_TIMEOUT_USEC=${MORE_TIME_MS * 1_000}`, MORE_TIME_MS / 4);
      await work.finally(() => asking.cancel());
    },
    /** Resolves when everything is sent, after a second at most. */
    close: (): Promise<void> => {
      signs?.cancel();
      return helper.close();
    },
  };
}

/**
 * Passes each line on. A separate shell, started while the process is small: starting systemd-notify from the daemon itself
 * would copy the page tables of all its memory each time (docs/decisions/0011-service-manager.md).
 */
const HELPER = 'while IFS= read -r message; do systemd-notify "$message"; done';

/** Passes messages on to the service manager without waiting for them. `failed` is called with every error. */
function startNotifyHelper(failed: (error: Error) => void, clock: Clock) {
  let helper;
  try {
    helper = spawn('/bin/sh', ['-c', HELPER], { stdio: ['pipe', 'ignore', 'pipe'] });
  } catch (error) {
    // A sandbox allows no other program, or there is no memory for one: the daemon itself needs none.
    failed(asError(error));
    return { send: () => undefined, close: () => Promise.resolve() };
  }
  const { stdin, stderr } = helper;
  const ended = once(helper, 'close').catch(() => undefined);
  helper.on('error', failed);
  stdin.on('error', failed);
  stderr.setEncoding('utf8').on('data', (words: string) => failed(new Error(words.trim())));
  // The helper does not keep the process running.
  helper.unref();
  for (const pipe of [stdin, stderr]) if (pipe instanceof Socket) pipe.unref();
  return {
    send: (message: string): void => {
      if (stdin.writableLength > MAX_WAITING_CHARACTERS) failed(new Error('systemd-notify is stuck'));
      else stdin.write(`${message}\n`);
    },
    /** Resolves when everything is passed on, after a second at most. */
    close: async (): Promise<void> => {
      stdin.end();
      await within(clock, LAST_MESSAGES_MS, ended);
      // One that is stuck would try what waits for a daemon that is gone.
      helper.kill();
    },
  };
}
