import type { StatusDocument } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { formatDuration } from '../../observability/index.js';
import { childOf, orAborted, sleep, systemClock, wasAborted } from '../../runtime/index.js';
import { daemonStatus, noDaemon } from '../client/askDaemon.js';
import type { Run, Terminal } from '../command.js';
import type { statusFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { renderStatus, statusLine, statusScreen } from '../output/statusPage.js';

export const status: Run<typeof statusFlags> = async (invocation, terminal) => {
  const { watch, json } = invocation.flags;
  const loaded = await configOf(invocation, terminal);
  if (watch) return watchStatus(loaded, json, terminal);
  const document = await daemonStatus(loaded, { needs: json ? [] : undefined });
  if (document === undefined) throw await noDaemon(loaded);
  terminal.out(json ? `${JSON.stringify(document)}\n` : renderStatus(document));
  return 'done';
};

const INTERVAL_MS = 1_000;
const CTRL_C = '\u0003';
const CTRL_Z = '\u001a';
const HINT = 'q ends this.';

/**
 * Asks the daemon every second and shows its answer, until a signal or a key ends it. Waits for a daemon that goes
 * away. Expected errors: OperatorError (`no_daemon`) when none answers at first.
 */
async function watchStatus(loaded: LoadedConfig, json: boolean, terminal: Terminal): Promise<'done'> {
  const isLive = terminal.isLive && !json;
  const ending = childOf(terminal.signal);
  const { signal } = ending;
  const display = isLive ? screen(terminal) : lines(terminal, json);
  // In raw mode, these keys send no signal.
  const onKey = (key: string): void => {
    if (key === 'q' || key === CTRL_C) ending.abort();
    // Windows has no job control.
    if (key === CTRL_Z && process.platform !== 'win32') void suspend();
  };
  let stopKeys = isLive ? terminal.onKey(onKey) : undefined;
  const suspend = async (): Promise<void> => {
    stopKeys?.();
    display.close();
    await terminal.write(new Uint8Array());
    // A signal may have ended it while it was suspended.
    process.once('SIGCONT', () => {
      if (!signal.aborted) stopKeys = terminal.onKey(onKey);
    });
    process.kill(0, 'SIGTSTP');
  };
  let last: StatusDocument | undefined;
  let answeredAtMs = 0;
  try {
    for (;;) {
      const status = await daemonStatus(loaded, { needs: json ? [] : undefined, signal });
      signal.throwIfAborted();
      if (status !== undefined) answeredAtMs = systemClock.monotonic();
      last = status ?? last;
      if (last === undefined) throw await noDaemon(loaded);
      display.show(last, status === undefined ? (systemClock.monotonic() - answeredAtMs) / 1000 : undefined);
      // A paused terminal gets the newest state when it resumes, and nothing in between.
      if (!(await orAborted(terminal.write(new Uint8Array()), signal))) return 'done';
      await sleep(systemClock, INTERVAL_MS, signal);
    }
  } catch (error) {
    if (!wasAborted(error, signal)) throw error;
  } finally {
    stopKeys?.();
    ending.abort();
    display.close();
  }
  return 'done';
}

/** The alternate screen, without cursor or line wrapping. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE_END = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/**
 * Uses the whole terminal, redrawn in place without flicker. Its previous content is restored, and the last page follows it.
 * `awaySeconds`: the daemon has not answered for this long, and what is shown was its last answer.
 */
function screen(terminal: Terminal) {
  let isOpen = false;
  let last: StatusDocument | undefined;
  return {
    show: (status: StatusDocument, awaySeconds?: number): void => {
      last = status;
      const away = `The daemon has not answered for ${formatDuration(awaySeconds ?? 0)}. Its last answer: (${HINT})`;
      const head = awaySeconds === undefined ? HINT : away;
      // Leave the last column free: clearing the rest of the line would erase a character there.
      const lines = statusScreen(status, { columns: terminal.columns() - 1, rows: terminal.rows(), head });
      const page = lines.map((line) => line + CLEAR_LINE_END).join('\r\n');
      terminal.out(`${isOpen ? '' : ENTER}${HOME}${page}${CLEAR_BELOW}`);
      isOpen = true;
    },
    close: (): void => {
      if (isOpen) terminal.out(LEAVE);
      isOpen = false;
      if (last !== undefined) terminal.out(renderStatus(last));
    },
  };
}

/**
 * One line per answer, and one whenever the daemon goes away or comes back. With `json` the answers are documents, and those
 * lines are for standard error.
 */
function lines(terminal: Terminal, json: boolean): ReturnType<typeof screen> {
  const say = (text: string): void => (json ? terminal.err(text) : terminal.out(text));
  let isAway = false;
  return {
    show: (status, awaySeconds) => {
      const isBack = awaySeconds === undefined;
      if (isBack === isAway)
        say(isBack ? 'The daemon answers again.\n' : 'The daemon does not answer any more; still asking.\n');
      isAway = !isBack;
      if (isBack) terminal.out(`${json ? JSON.stringify(status) : statusLine(status)}\n`);
    },
    close: () => undefined,
  };
}
