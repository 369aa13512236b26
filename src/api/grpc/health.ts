import { WireWriter } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import { ApiError, busy, stopping } from '../view/ApiError.js';
import type { StreamCall, UnaryCall } from './calls/calls.js';

const MAX_WATCHERS = 200;

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

/**
 * The standard health service: the server as a whole, and each of `services`, is SERVING exactly while the daemon is
 * ready.
 */
export function healthService(
  services: readonly string[],
  daemon: { readiness(): { readonly ready: boolean } },
) {
  const known: ReadonlySet<string> = new Set(['', ...services]);
  /** `look` sends the state if it has changed; `end` ends the stream. */
  const watchers = new Set<{ readonly look: () => void; readonly end: (reason: unknown) => void }>();
  let isClosed = false;
  const stateOf = (service: string): number => {
    if (!known.has(service)) return SERVICE_UNKNOWN;
    return !isClosed && daemon.readiness().ready ? SERVING : NOT_SERVING;
  };
  const check: UnaryCall = (request) => {
    const service = request.text(1);
    if (known.has(service)) return encoded(stateOf(service));
    throw new ApiError(404, 'unknown_id', `there is no service ${quoted(service)} here`);
  };
  const watch: StreamCall = (request, { end, send }) => {
    if (watchers.size >= MAX_WATCHERS) throw busy(`at most ${MAX_WATCHERS} callers may watch at once`);
    const service = request.text(1);
    let reported: number | undefined;
    let isTaken = true;
    const look = (): void => {
      const state = stateOf(service);
      if (state === reported || !isTaken) return;
      reported = state;
      isTaken = false;
      send(encoded(state), () => (isTaken = true));
    };
    look();
    const watcher = { look, end };
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  };
  /** Reports a change to the watchers. Call it about every second: what a watcher did not take is sent again. */
  const notify = (): void => {
    for (const { look } of watchers) look();
  };
  /** Ends every stream. */
  const close = (): void => {
    isClosed = true;
    notify();
    for (const { end } of [...watchers]) end(stopping());
  };
  return { check, watch, notify, close };
}

function encoded(state: number): Buffer {
  return new WireWriter().number(1, state).finish();
}
