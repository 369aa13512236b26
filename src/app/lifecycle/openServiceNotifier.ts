import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import type { Logger } from '../../observability/index.js';
import { every, messageOf, within, type Clock } from '../../runtime/index.js';

/** How long a start may take from each message on. */
const MORE_TIME_MS = 120_000;
/** Keep-alive messages per watchdog period: one may be lost. */
const SIGNS_OF_LIFE = 2;

const SILENT_ADVICE =
  'fix this, or set Type=exec and WatchdogSec=0: without messages the service manager ends the daemon';

/** Characters that may wait for a helper that is stuck; further messages are dropped. */
const MAX_WAITING_CHARACTERS = 8_192;
/** How long the last messages may take before they are dropped. */
const LAST_MESSAGES_MS = 1_000;

/**
 * Forwards each line. A separate shell, started while the process is small: starting systemd-notify from the daemon itself would
 * copy the page tables of all its memory each time (docs/decisions/0011-service-manager.md).
 */
const HELPER = 'while IFS= read -r message; do systemd-notify "$message"; done';
const startShell = () => spawn('/bin/sh', ['-c', HELPER], { stdio: ['pipe', 'ignore', 'pipe'] });

interface Dependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Aborted when the daemon stops. Keep-alive messages continue until this is closed. */
  readonly signal: AbortSignal;
  /** Default: the shell. */
  readonly startHelper?: typeof startShell;
}

/** Messages to the service manager. */
export type ServiceNotifier = NonNullable<ReturnType<typeof openServiceNotifier>>;

/**
 * Reports the state of the daemon (alive, ready, stopping) to the service manager that started it, by the protocol of systemd's
 * `sd_notify`. Keep-alive messages come from a timer of the event loop, so they stop when it hangs; they are sent only if the
 * manager has a watchdog. A message that cannot be sent delays nothing, and is logged once. `undefined` if no service manager
 * expects messages, or none can be sent.
 */
export function openServiceNotifier(
  { NOTIFY_SOCKET: socket = '', WATCHDOG_PID: meantFor = '', WATCHDOG_USEC: limit = '' }: NodeJS.ProcessEnv,
  { clock, logger, signal, startHelper = startShell }: Dependencies,
) {
  if (socket === '') return undefined;
  let hasFailed = false;
  const failed = (error: unknown): void => {
    const fields = { error: messageOf(error), advice: SILENT_ADVICE };
    if (!hasFailed) logger.warn(fields, 'the service manager cannot be told how the daemon is');
    hasFailed = true;
  };
  let helper: ReturnType<typeof startShell>;
  try {
    helper = startHelper();
  } catch (error) {
    // A sandbox may allow no other program, or memory may be short: the daemon itself does not need one.
    failed(error);
    return undefined;
  }
  const { stdin, stderr } = helper;
  const ended = once(helper, 'close').catch(() => undefined);
  helper.on('error', failed);
  stdin.on('error', failed);
  stderr.setEncoding('utf8').on('data', (words: string) => failed(new Error(words.trim())));
  // The helper does not keep the process running.
  helper.unref();
  for (const pipe of [stdin, stderr]) if (pipe instanceof Socket) pipe.unref();
  const send = (message: string): void => {
    if (stdin.writableLength > MAX_WAITING_CHARACTERS) failed(new Error('systemd-notify is stuck'));
    else stdin.write(`${message}\n`);
  };
  // The watchdog may be meant for another process, such as a wrapper that started this one.
  const isOurs = meantFor === '' || meantFor === String(process.pid);
  const watchdogMs = Number(limit) / 1_000;
  const isWatched = isOurs && watchdogMs > 0 && watchdogMs < Infinity;
  const giveSign = (): void => send('WATCHDOG=1');
  if (isWatched) giveSign();
  const signs = isWatched ? every(clock, watchdogMs / SIGNS_OF_LIFE, giveSign) : undefined;
  signal.addEventListener('abort', () => send('STOPPING=1'), { once: true });
  return {
    /** The daemon serves. */
    ready: (): void => send('READY=1'),
    /** Asks for more time to start. */
    moreTime: (): void => send(`EXTEND_TIMEOUT_USEC=${MORE_TIME_MS * 1_000}`),
    /** Resolves when everything is forwarded, after at most a second. */
    close: async (): Promise<void> => {
      signs?.cancel();
      stdin.end();
      await within(clock, LAST_MESSAGES_MS, ended);
      // A stuck helper would go on sending the waiting messages for a daemon that has ended.
      helper.kill();
    },
  };
}
