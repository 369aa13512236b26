import type { IncomingHttpHeaders } from 'node:http';
import { WebSocket } from 'ws';
import { Arrivals } from './arrivals.js';
import { atEnd } from './cleanup.js';

export interface WsMessage {
  readonly subscription_id?: string;
  readonly action?: string;
  readonly topic?: string;
  readonly payload?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
  readonly subscriptions?: readonly object[];
}

export class WsClient extends Arrivals<WsMessage> {
  readonly socket: WebSocket;
  readonly messages = this.arrived;
  /** Code and reason, once it is closed. */
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  #taken = 0;

  private constructor(socket: WebSocket) {
    super();
    this.socket = socket;
    socket.on('message', (data: Buffer) => this.arrives(JSON.parse(data.toString()) as WsMessage));
    this.closed = new Promise((resolve) => {
      socket.once('close', (code, reason) => {
        this.ends();
        resolve({ code, reason: reason.toString() });
      });
    });
  }

  /** Rejects with the status where the server does not go over to WebSocket. */
  static async open(apiUrl: string, headers: IncomingHttpHeaders = {}): Promise<WsClient> {
    const options = { headers: headers as Record<string, string> };
    const socket = new WebSocket(`${apiUrl.replace('http', 'ws')}/v1/ws`, options);
    atEnd(() => socket.terminate());
    const client = new WsClient(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', reject);
    });
    return client;
  }

  send(message: object | string): void {
    this.socket.send(typeof message === 'string' ? message : JSON.stringify(message));
  }

  subscribe(id: string, topic: string, args: object = {}): void {
    this.send({ subscription_id: id, action: 'subscribe', topic, arguments: args });
  }

  async next(): Promise<WsMessage> {
    const count = (this.#taken += 1);
    const [message = {}] = (await this.first(count)).slice(-1);
    return message;
  }
}
