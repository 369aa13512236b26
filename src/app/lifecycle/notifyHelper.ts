import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Clock } from '../../runtime/index.js';

/** Characters that may wait for a helper that is stuck; further messages are dropped. */
const MAX_WAITING_CHARACTERS = 8_192;
/** How long the last messages may take before they are dropped. */
const LAST_MESSAGES_MS = 1_000;

/**
 * Passes each line on. A separate shell, started while the process is small: starting systemd-notify from the daemon itself
 * would copy the page tables of all its memory each time (docs/decisions/0011-service-manager.md).
 */
const HELPER = 'while IFS= read -r message; do systemd-notify "$message"; done';

/** Passes messages on to the service manager without waiting for them. */
export interface NotifyHelper {
  send(message: string): void;
  /** Resolves when everything is passed on, after a second at most. */
  close(): Promise<void>;
}

/** Starts a helper. `failed` is called with every error. */
export type StartNotifyHelper = (failed: (error: Error) => void, clock: Clock) => NotifyHelper;

export const startNotifyHelper: StartNotifyHelper = (failed, clock) => {
  const helper = spawn('/bin/sh', ['-c', HELPER], { stdio: ['pipe', 'ignore', 'pipe'] });
  const { stdin, stderr } = helper;
  const ended = new Promise<void>((resolve) => {
    helper.once('close', () => resolve()).once('error', () => resolve());
  });
  helper.on('error', failed);
  stdin.on('error', failed);
  stderr.setEncoding('utf8').on('data', (words: string) => failed(new Error(words.trim())));
  // The helper does not keep the process running.
  helper.unref();
  for (const pipe of [stdin, stderr]) if (pipe instanceof Socket) pipe.unref();
  return {
    send: (message) => {
      if (stdin.writableLength > MAX_WAITING_CHARACTERS) failed(new Error('systemd-notify is stuck'));
      else stdin.write(`${message}\n`);
    },
    close: async () => {
      stdin.end();
      await new Promise<void>((resolve) => {
        const limit = clock.setTimer(LAST_MESSAGES_MS, resolve);
        void ended.then(() => {
          limit.cancel();
          resolve();
        });
      });
    },
  };
};
