import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Logger } from '../../observability/index.js';
import { messageOf, OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import { removeIfPossible } from './daemonRecord.js';
import { MAX_CONTROL_CONNECTIONS } from './descriptorShares.js';

const SOCKET_FILE = 'control.sock';
/** The longest socket path that systems accept, with some margin. */
const MAX_PATH_BYTES = 100;
const MAX_REQUEST_BYTES = 4_096;
/** How long a command may take to arrive. */
const REQUEST_TIMEOUT_MS = 5_000;

/** The answer to a command: its result, or why it is refused. */
export type ControlAnswer =
  { readonly done: unknown } | { readonly refused: { readonly exit: ExitReason; readonly message: string } };

/**
 * Takes commands that change something, through a socket in the data directory, which belongs to its owner like the store
 * itself. No web page, other machine or other user can reach it, whatever addresses the servers listen on. One line of JSON
 * in, one out.
 */
export class ControlSocket {
  #path: string;
  readonly #dependencies: ConstructorParameters<typeof ControlSocket>[1];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Set where the data directory cannot hold a socket. */
  #folder: string | undefined;

  constructor(
    { dataDir }: { readonly dataDir: string },
    dependencies: {
      /** Runs a command. Expected errors: OperatorError, which is returned to the caller. */
      readonly obey: (command: unknown) => Promise<unknown>;
      /** Called with every other error: the owner stops the process. */
      readonly fail: (error: unknown) => void;
      readonly logger: Logger;
    },
  ) {
    this.#path = resolve(dataDir, SOCKET_FILE);
    this.#dependencies = dependencies;
    this.#server = createServer((socket) => this.#serve(socket));
    this.#server.maxConnections = MAX_CONTROL_CONNECTIONS;
  }

  get path(): string {
    return this.#path;
  }

  /**
   * Listens in the data directory, else in a directory of its own below that for temporary files: the path may be too long for a
   * socket, and some file systems have none. Expected errors: OperatorError `storage`.
   */
  async start(): Promise<void> {
    try {
      if (Buffer.byteLength(this.#path) > MAX_PATH_BYTES) throw new Error(`${this.#path} is too long a path`);
      await this.#listen();
    } catch (error) {
      await this.#listenElsewhere(messageOf(error));
    }
  }

  async #listenElsewhere(why: string): Promise<void> {
    try {
      this.#folder = mkdtempSync(join(tmpdir(), 'fci-'));
      this.#path = join(this.#folder, SOCKET_FILE);
      await this.#listen();
    } catch (error) {
      const message =
        `Cannot listen for commands, neither in the data directory (${why}) nor in ${tmpdir()} (${messageOf(error)}). ` +
        'Choose another --data-dir, or set TMPDIR to a directory that can be written to.';
      throw new OperatorError('storage', message, { cause: error });
    }
  }

  async #listen(): Promise<void> {
    // An existing socket was left by a daemon that was killed: we hold the store's lock.
    rmSync(this.#path, { force: true });
    await once(this.#server.listen({ path: this.#path }), 'listening');
    this.#server.on('error', this.#dependencies.fail);
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    removeIfPossible(this.#folder ?? this.#path);
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setTimeout(REQUEST_TIMEOUT_MS, () => socket.destroy());
    // The command is carried out even if the caller hangs up.
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (part: string) => {
      text += part;
      const end = text.indexOf('\n');
      if (end < 0 && text.length <= MAX_REQUEST_BYTES) return;
      socket.pause();
      socket.removeAllListeners('data');
      socket.setTimeout(0);
      this.#answer(text.slice(0, Math.max(0, end))).then(
        (answer) => socket.end(`${JSON.stringify(answer)}\n`),
        (error: unknown) => {
          socket.destroy();
          this.#dependencies.fail(error);
        },
      );
    });
  }

  async #answer(line: string): Promise<ControlAnswer> {
    try {
      return { done: await this.#dependencies.obey(parsed(line)) };
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#dependencies.logger.debug({ why: error.message }, 'a command was refused');
      return { refused: { exit: error.exit, message: error.message } };
    }
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    throw notUnderstood();
  }
}

export function notUnderstood(): OperatorError {
  return new OperatorError('usage', 'The daemon does not understand this command. Is it another version?');
}
