import { DgramSocket } from 'node-unix-socket';

/** Messages that may wait for a receiver which is stuck; further ones are dropped. */
const MAX_WAITING = 16;

/** Sends datagrams, and waits for none. */
export interface NotifySocket {
  /** `failed`: called with the error of a message that does not arrive. */
  send(message: string, failed: (error: Error) => void): void;
  close(): void;
}

/**
 * Opens a socket that sends to a path. Node.js itself has no Unix datagram sockets
 * (docs/decisions/0011-service-manager.md). Loaded only where a service manager wants to be told.
 */
export function openNotifySocket(path: string): NotifySocket {
  if (!path.startsWith('/')) throw new Error(`NOTIFY_SOCKET is ${path}: only paths of files are known here.`);
  const socket = new DgramSocket();
  // An error of the socket closes it; the next message that fails says so.
  socket.on('error', () => undefined);
  let waiting = 0;
  return {
    send: (message, failed) => {
      if (waiting >= MAX_WAITING) {
        failed(new Error(`Nobody reads ${path}.`));
        return;
      }
      const bytes = Buffer.from(message, 'utf8');
      waiting += 1;
      try {
        socket.sendTo(bytes, 0, bytes.length, path, (error) => {
          waiting -= 1;
          if (error !== undefined) failed(error);
        });
      } catch (error) {
        waiting -= 1;
        failed(error instanceof Error ? error : new Error(String(error)));
      }
    },
    close: () => socket.close(),
  };
}
