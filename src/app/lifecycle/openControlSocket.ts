import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Logger } from '../../observability/index.js';
import { jsonIn, messageOf, OperatorError, unlessThrown } from '../../runtime/index.js';
import type { Clock, ExitReason } from '../../runtime/index.js';
import { removeIfPossible, whenRemoved } from './daemonRecord.js';
import type { Lifecycle } from './openLifecycle.js';
import { MAX_CONTROL_CONNECTIONS } from './watchDescriptors.js';

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
 * Takes commands that change something, through a socket in the data directory, which belongs to the owner of the store. No web
 * page, other machine or other user can reach it, whatever addresses the servers listen on. One line of JSON in, one out.
 * Returns its path.
 *
 * Listens in the data directory, else in a new directory under the system's temporary one: the path may be too long for a
 * socket, and some file systems have no sockets. Expected errors: OperatorError `storage`.
 */
export async function openControlSocket(
  dataDir: string,
  parts: {
    /** Runs a command. Expected errors: OperatorError, which is returned to the caller. Every other error ends the daemon. */
    readonly obey: (command: unknown) => Promise<unknown>;
    readonly lifecycle: Lifecycle;
    readonly logger: Logger;
    readonly clock: Clock;
  },
): Promise<string> {
  const { lifecycle, logger, obey } = parts;
  const sockets = new Set<Socket>();
  const answerTo = async (line: string): Promise<ControlAnswer> => {
    try {
      const command = jsonIn(line);
      if (command === undefined) throw notUnderstood();
      return { done: await obey(command) };
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      logger.debug({ why: error.message }, 'a command was refused');
      return { refused: { exit: error.exit, message: error.message } };
    }
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.setTimeout(REQUEST_TIMEOUT_MS, () => socket.destroy());
    // The command is carried out even if the caller hangs up.
    socket.on('error', () => socket.destroy());
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (part: string) => {
      text += part;
      const end = text.indexOf('\n');
      if (end < 0 && text.length <= MAX_REQUEST_BYTES) return;
      // Further input is dropped. A caller that does not hang up blocks no other.
      socket.removeAllListeners('data').resume().setTimeout(0);
      const answering = answerTo(text.slice(0, Math.max(0, end)));
      lifecycle.supervise(answering);
      answering.then(
        (answer) => socket.end(`${JSON.stringify(answer)}\n`, () => socket.destroy()),
        () => socket.destroy(),
      );
    });
  });
  server.maxConnections = MAX_CONTROL_CONNECTIONS;
  /** Returns the path of the socket. */
  const listenIn = async (folder: string): Promise<string> => {
    const path = join(folder, SOCKET_FILE);
    if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw new Error(`${path} is too long a path`);
    // An existing socket was left by a daemon that was killed: we hold the store's lock.
    rmSync(path, { force: true });
    await once(server.listen({ path }), 'listening');
    return path;
  };
  let ownFolder: string | undefined;
  const listenElsewhere = async (why: unknown): Promise<string> => {
    try {
      ownFolder = mkdtempSync(join(resolve(tmpdir()), 'fci-'));
      return await listenIn(ownFolder);
    } catch (error) {
      const message =
        `Cannot listen for commands, neither in the data directory (${messageOf(why)}) nor in ${tmpdir()} (${messageOf(error)}). ` +
        'Choose another --data-dir, or set TMPDIR to a directory that can be written to.';
      throw new OperatorError('storage', message, { cause: error });
    }
  };
  const path = await listenIn(resolve(dataDir)).catch(listenElsewhere);
  let isLogged = false;
  server.on('listening', () => (isLogged = false));
  server.on('error', (error) => {
    if (!isLogged) logger.warn({ path, why: messageOf(error) }, 'cannot listen for commands');
    isLogged = true;
  });
  const listenAgain = (): void => {
    server.close();
    // If the folder cannot be created, the server reports why it cannot listen.
    unlessThrown(() => ownFolder && mkdirSync(ownFolder, { mode: 0o700, recursive: true }));
    server.listen({ path });
  };
  lifecycle.supervise(whenRemoved(path, parts, listenAgain));
  lifecycle.onClose('control socket', async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of sockets) socket.destroy();
    await closed;
    removeIfPossible(ownFolder ?? path);
  });
  return path;
}

export function notUnderstood(): OperatorError {
  return new OperatorError('usage', 'The daemon does not understand this command. Is it another version?');
}
