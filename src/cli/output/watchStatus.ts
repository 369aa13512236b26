import type { StatusDocument } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { formatDuration, LiveScreen } from '../../observability/index.js';
import { abortReason, isAbort, sleep, systemClock } from '../../runtime/index.js';
import { askDaemon, noDaemon } from '../client.js';
import type { Terminal } from '../command.js';
import { renderStatus, statusLine, statusScreen } from './statusPage.js';

/** Between two questions. */
const INTERVAL_MS = 1_000;
const CTRL_C = '\u0003';
const HINT = 'q ends this.';

/** Where the answers go. */
interface Display {
  show(status: StatusDocument): void;
  /** The daemon does not answer, since so long; `last` is what it said before. */
  showAway(last: StatusDocument, awaySeconds: number): void;
  close(): void;
}

/**
 * Asks the daemon every second and shows what it says, until a signal or a key ends it. A daemon that goes away is waited for.
 * Expected errors: OperatorError (`no_daemon`) when none answers at first.
 */
export async function watchStatus(
  { json }: { readonly json: boolean },
  { loaded, terminal }: { readonly loaded: LoadedConfig; readonly terminal: Terminal },
): Promise<void> {
  const isLive = terminal.isLive && !json;
  const ending = new AbortController();
  const end = (): void => ending.abort(abortReason(ending.signal));
  terminal.signal.addEventListener('abort', end, { once: true });
  // A terminal that tells of keys one by one sends no signal for Ctrl-C.
  const stopKeys = isLive ? terminal.onKey((key) => (key === 'q' || key === CTRL_C) && end()) : undefined;
  const display = isLive ? screen(terminal) : json ? documents(terminal) : lines(terminal);
  if (terminal.signal.aborted) end();
  try {
    await follow(loaded, display, ending.signal);
  } catch (error) {
    if (!ending.signal.aborted || !isAbort(error)) throw error;
  } finally {
    stopKeys?.();
    terminal.signal.removeEventListener('abort', end);
    display.close();
  }
}

async function follow(loaded: LoadedConfig, display: Display, signal: AbortSignal): Promise<void> {
  let last: StatusDocument | undefined;
  let answeredAtMs = 0;
  for (;;) {
    const answer = await askDaemon(loaded, '/status', signal);
    signal.throwIfAborted();
    if (answer !== undefined) {
      last = answer.body as StatusDocument;
      answeredAtMs = systemClock.monotonic();
      display.show(last);
    } else {
      if (last === undefined) throw noDaemon(loaded);
      display.showAway(last, (systemClock.monotonic() - answeredAtMs) / 1000);
    }
    await sleep(systemClock, INTERVAL_MS, signal);
  }
}

/** The whole terminal. What it showed last stays on it. */
function screen(terminal: Terminal): Display {
  const live = new LiveScreen({ stream: { write: (text) => terminal.out(text) } });
  let last: StatusDocument | undefined;
  // The last column stays free: what clears the rest of a line would clear a character there.
  const size = () => ({ columns: terminal.columns() - 1, rows: terminal.rows() });
  return {
    show: (status) => {
      last = status;
      live.show(statusScreen(status, { ...size(), head: HINT }));
    },
    showAway: (status, seconds) => {
      const head = `The daemon does not answer, for ${formatDuration(seconds)}. What it said last: (${HINT})`;
      live.show(statusScreen(status, { ...size(), head }));
    },
    close: () => {
      live.close();
      if (last !== undefined) terminal.out(renderStatus(last));
    },
  };
}

/** A line each time; and one whenever the daemon goes or comes. */
function lines(terminal: Terminal): Display {
  return onEdges(
    (text) => terminal.out(text),
    (status) => terminal.out(`${statusLine(status)}\n`),
  );
}

/** Documents only; who goes and comes is told beside them. */
function documents(terminal: Terminal): Display {
  return onEdges(
    (text) => terminal.err(text),
    (status) => terminal.out(`${JSON.stringify(status)}\n`),
  );
}

function onEdges(tell: (text: string) => void, show: (status: StatusDocument) => void): Display {
  let isAway = false;
  return {
    show: (status) => {
      if (isAway) tell('The daemon answers again.\n');
      isAway = false;
      show(status);
    },
    showAway: () => {
      if (!isAway) tell('The daemon does not answer any more; still asking.\n');
      isAway = true;
    },
    close: () => undefined,
  };
}
