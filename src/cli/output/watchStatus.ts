import type { StatusDocument } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { formatDuration, LiveScreen } from '../../observability/index.js';
import { childOf, orAborted, sleep, systemClock, wasAborted } from '../../runtime/index.js';
import { daemonStatus, noDaemon } from '../client/askDaemon.js';
import type { Terminal } from '../command.js';
import { renderStatus, statusLine, statusScreen } from './statusPage.js';

/** How often the daemon is asked. */
const INTERVAL_MS = 1_000;
const CTRL_C = '\u0003';
const HINT = 'q ends this.';

/** Where the answers go. */
interface Display {
  show(status: StatusDocument): void;
  /** The daemon has not answered for this long; `last` is its last answer. */
  showAway(last: StatusDocument, awaySeconds: number): void;
  close(): void;
}

/**
 * Asks the daemon every second and shows its answer, until a signal or a key ends it. Waits for a daemon that goes
 * away. Expected errors: OperatorError (`no_daemon`) when none answers at first.
 */
export async function watchStatus(loaded: LoadedConfig, json: boolean, terminal: Terminal): Promise<void> {
  const isLive = terminal.isLive && !json;
  const ending = childOf(terminal.signal);
  const { signal } = ending;
  // In raw mode, Ctrl-C sends no signal.
  const onKey = (key: string): void => {
    if (key === 'q' || key === CTRL_C) ending.abort();
  };
  const stopKeys = isLive ? terminal.onKey(onKey) : undefined;
  const display = isLive ? screen(terminal) : lines(terminal, json);
  let last: StatusDocument | undefined;
  let answeredAtMs = 0;
  try {
    for (;;) {
      const status = await daemonStatus(loaded, signal);
      signal.throwIfAborted();
      if (status !== undefined) {
        last = status;
        answeredAtMs = systemClock.monotonic();
        display.show(last);
      } else {
        if (last === undefined) throw noDaemon(loaded);
        display.showAway(last, (systemClock.monotonic() - answeredAtMs) / 1000);
      }
      // A terminal that stands still gets what is new when it goes on, and nothing in between.
      if (!(await orAborted(terminal.write(new Uint8Array()), signal))) return;
      await sleep(systemClock, INTERVAL_MS, signal);
    }
  } catch (error) {
    if (!wasAborted(error, signal)) throw error;
  } finally {
    stopKeys?.();
    ending.abort();
    display.close();
  }
}

/** Uses the whole terminal. The last page stays on it. */
function screen(terminal: Terminal): Display {
  const live = new LiveScreen({ stream: { write: (text) => terminal.out(text) } });
  let last: StatusDocument | undefined;
  // Leave the last column free: clearing the rest of the line would erase a character there.
  const size = () => ({ columns: terminal.columns() - 1, rows: terminal.rows() });
  return {
    show: (status) => {
      last = status;
      live.show(statusScreen(status, { ...size(), head: HINT }));
    },
    showAway: (status, seconds) => {
      const head = `The daemon has not answered for ${formatDuration(seconds)}. Its last answer: (${HINT})`;
      live.show(statusScreen(status, { ...size(), head }));
    },
    close: () => {
      live.close();
      if (last !== undefined) terminal.out(renderStatus(last));
    },
  };
}

/**
 * One line per answer, and one whenever the daemon goes away or comes back. With `json` the answers are documents, and those
 * lines are for standard error.
 */
function lines(terminal: Terminal, json: boolean): Display {
  const tell = (text: string): void => (json ? terminal.err(text) : terminal.out(text));
  let isAway = false;
  return {
    show: (status) => {
      if (isAway) tell('The daemon answers again.\n');
      isAway = false;
      terminal.out(`${json ? JSON.stringify(status) : statusLine(status)}\n`);
    },
    showAway: () => {
      if (!isAway) tell('The daemon does not answer any more; still asking.\n');
      isAway = true;
    },
    close: () => undefined,
  };
}
