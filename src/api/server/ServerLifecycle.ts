import type { Server } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import type { Logger } from '../../observability/index.js';
import { outOfDescriptors } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { isCorruption, StorageError } from '../../storage/index.js';
import { missingOf, renew } from '../guard/tls.js';
import type { ApiSecrets } from '../guard/tls.js';
import { ApiError, outOfFiles, storageRefusal } from '../view/ApiError.js';
import type { Connections } from './Connections.js';
import { isLoopback, listenError } from './listenError.js';

/** For requests in progress when a server closes; then their connections are cut. */
const CLOSE_GRACE_MS = 2_000;

export interface ServerLifecycleOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** The name in the log. */
  readonly name: 'api' | 'metrics' | 'grpc';
  readonly hostFlag: string;
  readonly portFlag: string;
  /** What guards the port. Absent: nothing does. */
  readonly secrets: ApiSecrets | undefined;
}

export interface ServerLifecycleDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with every error that is a bug, after the caller got an internal error: the owner stops the process. */
  readonly fail: (error: unknown) => void;
}

/** How a server listens and ends. */
export interface ServerHooks {
  readonly socket: Server;
  /** Checked while it listens. */
  readonly connections: Pick<Connections, 'start' | 'close' | 'destroyAll'>;
  /** Rejects with the error of Node.js. */
  listen(): Promise<void>;
  /** Stops listening. Resolves when the last connection is gone, however long its response takes. */
  stop(): Promise<void>;
  /** Ends what is left after the grace period, before its connections are cut. Must not throw. */
  cut(): void | Promise<void>;
}

/** What our servers have in common: listening, handlers in progress, the translation of errors, and a bounded shutdown. */
export class ServerLifecycle {
  readonly #options: ServerLifecycleOptions;
  readonly #dependencies: ServerLifecycleDependencies;
  readonly #hooks: ServerHooks;
  #inProgress = 0;
  #onIdle: (() => void) | undefined;
  /** The last damage logged, so that a repeated request does not fill the log. */
  #damageLogged = '';
  #closing: Promise<void> | undefined;
  #isClosed = false;

  constructor(
    options: ServerLifecycleOptions,
    { hooks, ...dependencies }: ServerLifecycleDependencies & { readonly hooks: ServerHooks },
  ) {
    this.#options = options;
    this.#dependencies = dependencies;
    this.#hooks = hooks;
  }

  /** Handlers in progress, even if their callers have hung up. */
  get inProgress(): number {
    return this.#inProgress;
  }

  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Listens. Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  async start(): Promise<void> {
    try {
      await this.#hooks.listen();
      this.#hooks.connections.start();
    } catch (error) {
      throw listenError(error, this.#options);
    }
    const address = this.address();
    const { name, secrets } = this.#options;
    const without = missingOf(secrets);
    if (isLoopback(address.host) || without.length === 0) return;
    this.#dependencies.logger.warn(
      { server: name, ...address, without, advice: '"doctor" says what to change' },
      'listening beyond this machine: anyone who reaches the port can read',
    );
  }

  /** The listening address, with the port resolved. Only between `start()` and `close()`. */
  address(): { readonly host: string; readonly port: number } {
    const address = this.#hooks.socket.address();
    if (address === null || typeof address === 'string') throw new Error('the server does not listen');
    return { host: this.#options.host, port: address.port };
  }

  /** New connections get this certificate; a port without TLS stays without. */
  renew({ tls }: ApiSecrets): void {
    const { socket } = this.#hooks;
    if (socket instanceof TlsServer && tls !== undefined) renew(socket, tls);
  }

  async run<T>(handler: () => Promise<T>): Promise<T> {
    this.#inProgress += 1;
    try {
      return await handler();
    } finally {
      this.#inProgress -= 1;
      if (this.#inProgress === 0) this.#onIdle?.();
    }
  }

  /** The refusal for an error that a handler threw. */
  explain(error: unknown): ApiError {
    if (error instanceof ApiError) return error;
    if (error instanceof StorageError) {
      // The damage of a known height is named by what heals it.
      const isNamed = isCorruption(error) && error.height !== undefined;
      if (!isNamed && this.#damageLogged !== error.message) {
        this.#damageLogged = error.message;
        this.#dependencies.logger.error({ kind: error.kind, error }, 'a read failed');
      }
      return storageRefusal(error);
    }
    if (outOfDescriptors(error) !== undefined) return outOfFiles();
    // Errors after close are expected.
    if (!this.#isClosed) this.#dependencies.fail(error);
    return new ApiError(500, 'internal', 'internal server error');
  }

  /**
   * Stops listening. Requests in progress get CLOSE_GRACE_MS, and so do handlers whose callers have hung up: what they
   * read from may be closed next. Idempotent.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    let timer: Timer | undefined;
    const graceIsOver = new Promise<void>((resolve) => {
      timer = this.#dependencies.clock.setTimer(CLOSE_GRACE_MS, () => {
        void Promise.resolve(this.#hooks.cut()).then(() => {
          this.#hooks.connections.destroyAll();
          resolve();
        });
      });
    });
    try {
      this.#hooks.connections.close();
      await this.#hooks.stop();
      if (this.#inProgress > 0) {
        await Promise.race([graceIsOver, new Promise<void>((resolve) => (this.#onIdle = resolve))]);
      }
    } finally {
      timer?.cancel();
      this.#isClosed = true;
    }
  }
}
