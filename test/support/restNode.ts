import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { WebSocketServer, type WebSocket } from 'ws';
import { atEnd } from './cleanup.js';
import { lastingPort } from './lastingPort.js';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type RestReply = (request: IncomingMessage, response: ServerResponse, seen: SeenRequest) => void;

/** A REST interface that answers as it is told, and keeps what it was asked. */
export class RestNode {
  readonly seen: SeenRequest[] = [];
  reply: RestReply = (_request, response) => {
    response.writeHead(200, { 'set-cookie': 'a=b', 'x-from-node': 'yes' }).end('of the node');
  };
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const seen = { method, url, headers, body: Buffer.concat(chunks).toString() };
      this.seen.push(seen);
      this.reply(request, response, seen);
    });
  });
  readonly port: number;
  #sockets: WebSocketServer | undefined;

  private constructor(port: number) {
    this.port = port;
  }

  static async start(reply?: RestReply): Promise<RestNode> {
    const node = new RestNode(await lastingPort());
    if (reply !== undefined) node.reply = reply;
    await node.listen();
    atEnd(() => node.stop());
    return node;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.port, '127.0.0.1', resolve));
  }

  speak(path: string, take: (socket: WebSocket, headers: IncomingHttpHeaders) => void): void {
    this.#sockets = new WebSocketServer({ server: this.#server, path });
    this.#sockets.on('connection', (socket, { headers }) => take(socket, headers));
  }

  /** Answers requests from here on before they are read, and keeps none of them. */
  answerUnread(reply: (request: IncomingMessage, response: ServerResponse) => void): void {
    this.#server.removeAllListeners('request').on('request', reply);
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets?.clients ?? []) socket.terminate();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
