import type { Server } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import type { ConnectionMetrics } from '../../observability/index.js';
import { messageOf, OperatorError, outOfDescriptors, within } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { isCorruption, StorageError } from '../../storage/index.js';
import { contextOf, TokenGuard, missingOf, type ApiSecrets } from '../guard/TokenGuard.js';
import { AddressLimiter } from '../limits/AddressLimiter.js';
import { heldBytes, type HoldBytes } from '../limits/heldBytes.js';
import { requestCounter, type ApiMetrics, type CountRequest } from '../limits/counters.js';
import { ApiError, outOfFiles, storageRefusal } from '../view/ApiError.js';
import type { connections, ConnectionsDependencies } from './connections.js';

/** For requests in progress when a server closes; then their connections are cut. */
const CLOSE_GRACE_MS = 2_000;
/** Reads that fail alike are logged once, as long as less than this passes between them. */
const SAME_FAILURE_MS = 60_000;

/** The limits that can change while a server runs. */
export interface ServerLimits {
  /** Requests per second per address; 0, the default, = unlimited. */
  readonly ratePerSecondPerAddress: number;
  /** Default: 512. Further ones are closed. */
  readonly maxConnections: number;
}

export interface ServerOptions extends Partial<ServerLimits> {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** What guards the port. Absent: nothing does. */
  readonly secrets?: ApiSecrets | undefined;
  /** Total of large responses that callers have not taken yet. Default: 256 MiB. */
  readonly maxHeldBytes?: number;
}

export interface ServerDependencies extends ConnectionsDependencies {
  /** Called with every error that is a bug, after the caller got an internal error: the owner stops the process. */
  readonly fail: (error: unknown) => void;
  /** Requests are counted where there is a metric for them. */
  readonly metrics: ConnectionMetrics & Partial<ApiMetrics>;
}

/** The flags that say where our servers listen. */
const flags = {
  api: { host: '--api-host', port: '--api-port' },
  metrics: { host: '--metrics-host', port: '--metrics-port' },
  grpc: { host: '--api-host', port: '--api-grpc-port' },
} as const;

/** Our servers, by their names in the log. */
export type ServerName = keyof typeof flags;

/**
 * What our servers have in common: the bounds on callers, listening, handlers in progress, the translation of errors, and a
 * bounded shutdown. Owners start it, close it and change its limits; the rest is for the servers themselves.
 */
export abstract class ListeningServer {
  /** Checked while it listens. */
  abstract readonly accepted: Pick<
    ReturnType<typeof connections>,
    'server' | 'start' | 'close' | 'setLimit' | 'destroyAll'
  >;
  readonly guard: TokenGuard;
  readonly limiter: AddressLimiter;
  readonly hold: HoldBytes;
  readonly countRequest: CountRequest;
  /** Handlers, even if their callers have hung up. */
  readonly inProgress = new Set<Promise<unknown>>();
  readonly #name: ServerName;
  readonly #options: ServerOptions;
  readonly #dependencies: ServerDependencies;
  /** The last failed read, so that repeated requests do not fill the log. */
  #failed = { message: '', atMs: -Infinity };
  #closing: Promise<void> | undefined;
  #isClosed = false;

  protected constructor(name: ServerName, options: ServerOptions, dependencies: ServerDependencies) {
    this.#name = name;
    this.#options = options;
    this.#dependencies = dependencies;
    this.guard = new TokenGuard(options.secrets);
    this.limiter = new AddressLimiter(options.ratePerSecondPerAddress ?? 0, dependencies.clock);
    this.hold = heldBytes(options.maxHeldBytes);
    this.countRequest = requestCounter(name === 'grpc' ? 'grpc' : 'http', dependencies);
  }

  /** Rejects with the error of Node.js. */
  abstract listen(at: Pick<ServerOptions, 'host' | 'port'>): Promise<unknown>;
  /** Stops listening. Resolves when the last connection is gone, however long its response takes. */
  abstract stop(): Promise<void>;
  /** Ends what is left after the grace period, before its connections are cut. Absent: nothing. Must not throw. */
  cut?(): Promise<void>;

  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Listens. Expected errors: OperatorError (`configuration`, `unavailable`) when the address cannot be used. */
  async start(): Promise<void> {
    const { host, port, secrets } = this.#options;
    try {
      await this.listen({ host, port });
      this.accepted.start();
    } catch (error) {
      throw listenError(error, this.#name, this.#options);
    }
    const address = this.address();
    const without = missingOf(secrets);
    if (isLoopback(address.host) || without.length === 0) return;
    this.#dependencies.logger.warn(
      { server: this.#name, ...address, without, advice: '"doctor" with these settings says what to change' },
      'listening beyond this machine: anyone who reaches the port can read',
    );
  }

  /** The listening address, with the port resolved. Only between `start()` and `close()`. */
  address(): { readonly host: string; readonly port: number } {
    const address = this.accepted.server.address();
    if (address === null || typeof address === 'string') throw new Error('the server does not listen');
    return { host: this.#options.host, port: address.port };
  }

  /** Changes limits while it runs. Connections beyond theirs stay if they have a request. */
  setLimits({ maxConnections, ratePerSecondPerAddress }: Partial<ServerLimits>): void {
    if (maxConnections !== undefined) this.accepted.setLimit(maxConnections);
    if (ratePerSecondPerAddress !== undefined) this.limiter.setRate(ratePerSecondPerAddress);
  }

  /** Replaces tokens, and the certificate for new connections; a plain-text port stays plain text. */
  secure(secrets: ApiSecrets): void {
    this.guard.secrets = secrets;
    const server: Server = this.accepted.server;
    if (server instanceof TlsServer && secrets.tls !== undefined)
      server.setSecureContext(contextOf(secrets.tls));
  }

  /** Runs a handler, which `close` waits for. */
  async run<T>(handler: () => Promise<T>): Promise<T> {
    const handled = handler();
    this.inProgress.add(handled);
    return handled.finally(() => this.inProgress.delete(handled));
  }

  /** The refusal for an error that a handler threw. */
  explain(error: unknown): ApiError {
    if (error instanceof ApiError) return error;
    if (error instanceof StorageError) {
      // Damage at a known height is reported by the code that heals it.
      const isNamed = isCorruption(error) && error.height !== undefined;
      const atMs = this.#dependencies.clock.monotonic();
      const isNews = this.#failed.message !== error.message || atMs - this.#failed.atMs >= SAME_FAILURE_MS;
      if (!isNamed) this.#failed = { message: error.message, atMs };
      if (!isNamed && isNews) this.#dependencies.logger.error({ kind: error.kind, error }, 'a read failed');
      return storageRefusal(error);
    }
    if (outOfDescriptors(error) !== undefined) return outOfFiles();
    // Errors after close are expected.
    if (!this.#isClosed) this.#dependencies.fail(error);
    return new ApiError(500, 'internal', 'internal server error');
  }

  /**
   * Stops listening. Requests in progress get CLOSE_GRACE_MS, and so do handlers whose callers have hung up: what they read from
   * may be closed next. Streams are ended by their owner. Idempotent.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.accepted.close();
    const stopped = this.stop();
    const idle = stopped.then(() => Promise.allSettled(this.inProgress));
    try {
      if ((await within(this.#dependencies.clock, CLOSE_GRACE_MS, idle)) !== 'late') return;
      await this.cut?.();
      this.accepted.destroyAll();
      await stopped;
    } finally {
      this.#isClosed = true;
    }
  }
}

/** True for an address that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** Why a server cannot listen, with the flag that fixes it. Unexpected errors are returned as they are. */
function listenError(error: unknown, name: ServerName, { host, port }: ServerOptions): unknown {
  const refuse = (message: string, exit: ExitReason = 'unavailable'): OperatorError =>
    new OperatorError(exit, message, { cause: error });
  switch (error instanceof Error && 'code' in error ? error.code : undefined) {
    case 'EADDRINUSE':
      return refuse(
        `Port ${port} on ${host} is in use, perhaps by another daemon. Choose another one with ${flags[name].port}, or stop the program that uses it.`,
      );
    case 'EACCES':
      return refuse(
        `This user may not listen on port ${port} of ${host}. Choose a port from 1024 on with ${flags[name].port}.`,
        'configuration',
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return refuse(
        `This machine has no address ${host} to listen on (${messageOf(error)}). Choose another one with ${flags[name].host}.`,
      );
    default:
      return error;
  }
}
