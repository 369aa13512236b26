import { connect, type Socket } from 'node:net';

const HEADER_END = Buffer.from('\r\n\r\n');

/** Kept alive, one request at a time: the least that a client can do, so that the server is measured. */
export class HttpConnection {
  readonly #socket: Socket;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  /** Bytes of the answer in hand, headers included; `undefined` until the headers are there. */
  #expectedBytes: number | undefined;
  #status = 0;
  #waiting: { resolve(status: number): void; reject(error: Error): void } | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#onData(chunk));
    socket.on('error', (error) => this.#waiting?.reject(error));
    socket.on('close', () => this.#waiting?.reject(new Error('the server hung up')));
  }

  static async open(port: number): Promise<HttpConnection> {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new HttpConnection(socket);
  }

  get(path: string): Promise<number> {
    this.#socket.write(`GET ${path} HTTP/1.1\r\nHost: bench\r\n\r\n`, 'latin1');
    return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }));
  }

  close(): void {
    this.#waiting = undefined;
    this.#socket.destroy();
  }

  #onData(chunk: Buffer): void {
    this.#received.push(chunk);
    this.#receivedBytes += chunk.length;
    if (this.#expectedBytes === undefined) {
      const head = this.#received.length === 1 ? chunk : Buffer.concat(this.#received);
      const end = head.indexOf(HEADER_END);
      if (end === -1) return;
      const headers = head.toString('latin1', 0, end);
      this.#status = Number(headers.slice(9, 12));
      const bodyBytes = Number(/\r\ncontent-length: (\d+)/i.exec(headers)?.[1]);
      this.#expectedBytes = end + HEADER_END.length + bodyBytes;
    }
    if (this.#receivedBytes < this.#expectedBytes) return;
    const waiting = this.#waiting;
    this.#received = [];
    this.#receivedBytes = 0;
    this.#expectedBytes = undefined;
    this.#waiting = undefined;
    waiting?.resolve(this.#status);
  }
}
