import { WireWriter } from '../../flow/index.js';
import type { RequestFields } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import { ApiError, stopping } from '../view/ApiError.js';
import type { StreamCall, StreamSink, UnaryCall } from './calls/calls.js';

const HEALTH = '/grpc.health.v1.Health';
/** Maximum open streams. */
const MAX_WATCHERS = 200;

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

interface Watcher {
  readonly isKnown: boolean;
  readonly sink: StreamSink;
  /** The last state sent to it. */
  reported: number | undefined;
}

/**
 * The standard health service: the server as a whole, and each of `services`, is SERVING exactly while the daemon is
 * ready.
 */
export class HealthService {
  readonly #services: ReadonlySet<string>;
  readonly #health: { readiness(): { readonly ready: boolean } };
  readonly #watchers = new Set<Watcher>();
  #closed = false;

  constructor(
    options: { readonly services: readonly string[] },
    dependencies: { readonly health: { readiness(): { readonly ready: boolean } } },
  ) {
    this.#services = new Set(['', ...options.services]);
    this.#health = dependencies.health;
  }

  unary(): Readonly<Record<string, UnaryCall>> {
    return { [`${HEALTH}/Check`]: (request) => this.#check(request) };
  }

  streams(): Readonly<Record<string, StreamCall>> {
    return { [`${HEALTH}/Watch`]: (request, sink) => this.#watch(request, sink) };
  }

  /** Ends every stream. */
  close(): void {
    this.#closed = true;
    this.notify();
    for (const { sink } of [...this.#watchers]) sink.refuse(stopping());
  }

  #check(request: RequestFields): Buffer {
    const service = request.text(1);
    if (this.#services.has(service)) return encoded(this.#state());
    throw new ApiError(404, 'unknown_id', `there is no service ${quoted(service)} here`);
  }

  #watch(request: RequestFields, sink: StreamSink): () => void {
    if (this.#watchers.size >= MAX_WATCHERS) {
      throw new ApiError(503, 'busy', `at most ${MAX_WATCHERS} callers may watch at once`);
    }
    const watcher: Watcher = { isKnown: this.#services.has(request.text(1)), sink, reported: undefined };
    this.#report(watcher, this.#state());
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** Reports a change to the watchers. Call it about every second: what a watcher did not take is sent again. */
  notify(): void {
    const state = this.#state();
    for (const watcher of this.#watchers) this.#report(watcher, state);
  }

  #report(watcher: Watcher, state: number): void {
    const current = watcher.isKnown ? state : SERVICE_UNKNOWN;
    if (current !== watcher.reported && watcher.sink.send(encoded(current))) watcher.reported = current;
  }

  #state(): number {
    return !this.#closed && this.#health.readiness().ready ? SERVING : NOT_SERVING;
  }
}

function encoded(state: number): Buffer {
  return new WireWriter().number(1, state).finish();
}
