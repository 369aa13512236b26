import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import type { NetConnectOpts, Socket } from 'node:net';
import { atEnd } from './cleanup.js';

const KEPT = 'Host: x\r\nConnection: keep-alive\r\n';
const REQUESTS = {
  /** Connects, and says nothing. */
  silent: '',
  /** Begins a request that it never ends. */
  slow: 'GET /livez HTTP/1.1\r\nHost:',
  /** Was answered once, and stays. */
  idle: `GET /livez HTTP/1.1\r\n${KEPT}\r\n`,
  /** Follows the index for ever. */
  follower: `GET /events HTTP/1.1\r\n${KEPT}\r\n`,
  webSocket: `GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}\r\n\r\n`,
} as const;

export type Manner = keyof typeof REQUESTS | 'grpcStream';

/** Callers that come at once and stay, until the test ends or they are told to go. */
export class Crowd {
  readonly #ends: (() => void)[] = [];

  constructor() {
    atEnd(() => this.leave());
  }

  /** Resolves when each is connected, or was turned away. */
  async join(count: number, to: NetConnectOpts, manner: Manner): Promise<void> {
    const arrivals = Array.from({ length: count }, () =>
      manner === 'grpcStream' ? this.#watchHealth(to) : this.#connect(to, REQUESTS[manner]),
    );
    await Promise.all(arrivals);
  }

  leave(): void {
    for (const end of this.#ends.splice(0)) end();
  }

  #connect(to: NetConnectOpts, request: string): Promise<void> {
    const socket: Socket = connect(to);
    this.#ends.push(() => socket.destroy());
    socket.on('error', () => undefined).resume();
    return new Promise((resolve) => {
      socket.once('close', () => resolve());
      socket.once('connect', () => {
        if (request !== '') socket.write(request);
        resolve();
      });
    });
  }

  /** An open stream on a connection of its own. */
  #watchHealth(to: NetConnectOpts): Promise<void> {
    const session = connectHttp2('http://localhost', { createConnection: () => connect(to) });
    this.#ends.push(() => session.destroy());
    session.on('error', () => undefined);
    return new Promise((resolve) => {
      session.once('close', () => resolve());
      const stream = session.request({
        ...{ ':method': 'POST', ':path': '/grpc.health.v1.Health/Watch' },
        ...{ 'content-type': 'application/grpc', te: 'trailers' },
      });
      stream.on('error', () => undefined);
      stream.once('response', () => resolve());
      stream.once('close', () => resolve());
      stream.resume().end(Buffer.alloc(5));
    });
  }
}
