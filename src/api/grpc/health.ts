import { WireWriter } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import type { FeedSink } from '../feed/following.js';
import { ApiError, busy, stopping } from '../view/ApiError.js';
import type { StreamCall, UnaryCall } from './calls/calls.js';

const MAX_WATCHERS = 200;

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

interface Watcher {
  readonly isKnown: boolean;
  readonly sink: FeedSink<Buffer>;
  /** The last state sent to it, and whether it was taken. */
  reported: number | undefined;
  isTaken: boolean;
}

/**
 * The standard health service: the server as a whole, and each of `services`, is SERVING exactly while the daemon is
 * ready.
 */
export function healthService(
  services: readonly string[],
  daemon: { readiness(): { readonly ready: boolean } },
) {
  const known: ReadonlySet<string> = new Set(['', ...services]);
  const watchers = new Set<Watcher>();
  let isClosed = false;
  const stateNow = (): number => (!isClosed && daemon.readiness().ready ? SERVING : NOT_SERVING);
  const report = (watcher: Watcher, state: number): void => {
    const current = watcher.isKnown ? state : SERVICE_UNKNOWN;
    if (current === watcher.reported || !watcher.isTaken) return;
    Object.assign(watcher, { reported: current, isTaken: false });
    watcher.sink.send(encoded(current), () => (watcher.isTaken = true));
  };
  const notify = (): void => {
    const state = stateNow();
    for (const watcher of watchers) report(watcher, state);
  };
  const check: UnaryCall = (request) => {
    const service = request.text(1);
    if (known.has(service)) return encoded(stateNow());
    throw new ApiError(404, 'unknown_id', `there is no service ${quoted(service)} here`);
  };
  const watch: StreamCall = (request, sink) => {
    if (watchers.size >= MAX_WATCHERS) throw busy(`at most ${MAX_WATCHERS} callers may watch at once`);
    const isKnown = known.has(request.text(1));
    const watcher: Watcher = { isKnown, sink, reported: undefined, isTaken: true };
    report(watcher, stateNow());
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  };
  return {
    check,
    watch,
    /** Reports a change to the watchers. Call it about every second: what a watcher did not take is sent again. */
    notify,
    /** Ends every stream. */
    close: (): void => {
      isClosed = true;
      notify();
      for (const { sink } of [...watchers]) sink.end(stopping());
    },
  };
}

function encoded(state: number): Buffer {
  return new WireWriter().number(1, state).finish();
}
