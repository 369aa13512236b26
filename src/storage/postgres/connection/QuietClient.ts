import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import pg from 'pg';
import { messageOf } from '../../../runtime/index.js';

/**
 * A client whose faults reach only its users. The package throws on unexpected bytes, such as an unknown authentication
 * method, and leaves a refused connection open.
 */
export class QuietClient extends pg.Client {
  #isConnected = false;
  /** What ended the connection while it was idle; the next statement learns only that it has ended. */
  lastFault: Error | undefined;

  constructor(config?: pg.ClientConfig) {
    super(config);
    // Heights and counts are safe integers.
    this.setTypeParser(pg.types.builtins.INT8, Number);
    const { connection } = this;
    guard(connection.stream);
    connection.on('sslconnect', () => guard(connection.stream));
    const closeRefused = (): void => {
      if (!this.#isConnected) connection.stream.destroy();
    };
    // The server refuses the login, or this side does: it has no password, or lacks the requested method.
    connection.on('errorMessage', closeRefused).on('error', closeRefused);
    this.on('connect', () => (this.#isConnected = true));
    this.on('error', (fault) => (this.lastFault ??= fault));
  }

  /** Bytes received. */
  get received(): number {
    const { stream } = this.connection;
    return stream instanceof Socket ? stream.bytesRead : 0;
  }
}

/** An error that the receiver of bytes throws ends the connection, not the process. */
function guard(stream: Duplex): void {
  const emit = stream.emit.bind(stream);
  stream.emit = (event: string | symbol, ...args: unknown[]): boolean => {
    try {
      return emit(event, ...args);
    } catch (error) {
      if (event !== 'data') throw error;
      stream.destroy(new Error(`it sends what this program does not understand: ${messageOf(error)}`));
      return true;
    }
  };
}
