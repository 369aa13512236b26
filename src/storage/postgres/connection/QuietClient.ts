import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import pg from 'pg';
import { messageOf } from '../../../runtime/index.js';

/**
 * A client whose faults reach nobody but those who use it. The package throws where bytes are not what it expects, such as
 * a way to sign in that it does not know, and leaves a connection open that was refused.
 */
export class QuietClient extends pg.Client {
  #isConnected = false;
  /** What ended the connection while nothing was asked on it; the next statement only learns that it has ended. */
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
    // The server refuses to sign in, or this side does: it has no password, or not the way that is asked for.
    connection.on('errorMessage', closeRefused).on('error', closeRefused);
    this.on('connect', () => (this.#isConnected = true));
    this.on('error', (fault) => (this.lastFault ??= fault));
  }

  /** Bytes that have come. */
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
