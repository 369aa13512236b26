import { createServer as createHttp2Server } from 'node:http2';
import type { Http2Server, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { atEnd } from './cleanup.js';
import { lastingPort } from './lastingPort.js';

export type Weather =
  | { readonly kind: 'fair' }
  /** Nobody listens, and what was connected is cut. */
  | { readonly kind: 'refused' }
  /** Every connection is reset as soon as it stands. */
  | { readonly kind: 'reset' }
  /** Connections stand and nothing comes through them, either way; old ones as well as new ones. */
  | { readonly kind: 'half-open' }
  /** Connections are taken, read from and never answered: no SETTINGS frame comes. */
  | { readonly kind: 'mute' }
  /** The node's bytes arrive one by one, this far apart. */
  | { readonly kind: 'drip'; readonly everyMs: number }
  /** What is connected is told to go away, and so is whoever connects, after this time. */
  | { readonly kind: 'go-away'; readonly afterMs: number; readonly code: number; readonly reason: string }
  /** A node of our own answers, over HTTP/2. */
  | {
      readonly kind: 'impostor';
      readonly answer: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;
    };

/** Key and certificate with which the proxy speaks TLS, in PEM. */
export interface Identity {
  readonly key: string;
  readonly cert: string;
}

const FRAME_HEADER_BYTES = 9;
const GOAWAY = 7;
/** "I still answer everything that you asked": no call fails because of the frame itself. */
const ANY_STREAM = 0x7fff_ffff;

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** Where in the node's sequence of frames the next byte belongs. */
  readonly frames: FrameCounter;
}

/** Stands between a daemon and its node and makes the weather. With an identity it speaks TLS to the daemon. */
export class FaultProxy {
  readonly #target: number;
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  readonly #sockets = new Set<Socket>();
  readonly #impostor: Http2Server;
  #weather: Weather = { kind: 'fair' };
  #identity: Identity | undefined;
  #port = 0;

  private constructor(target: { readonly port: number }, identity?: Identity) {
    this.#target = target.port;
    this.#identity = identity;
    this.#server = createServer((socket) => this.#accept(socket));
    this.#impostor = createHttp2Server();
    this.#impostor.on('stream', (stream, headers) => {
      stream.on('error', () => undefined);
      if (this.#weather.kind === 'impostor') this.#weather.answer(stream, headers);
    });
    this.#impostor.on('sessionError', () => undefined);
  }

  /** Until the end of the test. */
  static async before(target: { readonly port: number }, identity?: Identity): Promise<FaultProxy> {
    const proxy = new FaultProxy(target, identity);
    await proxy.#listen();
    atEnd(() => proxy.#close());
    return proxy;
  }

  async #listen(): Promise<void> {
    // While it refuses connections nobody else may be there.
    this.#port ||= await lastingPort();
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve));
  }

  get port(): number {
    return this.#port;
  }

  /** Changes the weather. New connections show another certificate from now on, if one is given. */
  async become(weather: Weather, identity?: Identity): Promise<void> {
    this.#identity = identity ?? this.#identity;
    const before = this.#weather;
    this.#weather = weather;
    if (before.kind === 'refused' && weather.kind !== 'refused') await this.#listen();
    switch (weather.kind) {
      case 'refused':
        this.#cutAll();
        await new Promise((resolve) => this.#server.close(resolve));
        return;
      case 'fair':
        // What a fault left behind does not heal: a real network forgets connections, too.
        if (before.kind !== 'fair') this.#cutAll();
        return;
      case 'reset':
      case 'mute':
      case 'impostor':
        this.#cutAll();
        return;
      case 'half-open':
        for (const { near, far } of this.#pairs) {
          near.pause();
          far.pause();
        }
        return;
      case 'go-away':
        for (const pair of this.#pairs) sendAway(pair, weather);
        return;
      case 'drip':
        return;
    }
  }

  /** The end of the weather as a wire brings it: what stood still moves on, nothing is cut. */
  thaw(): void {
    this.#weather = { kind: 'fair' };
    for (const { near, far } of this.#pairs) {
      near.resume();
      far.resume();
    }
  }

  async #close(): Promise<void> {
    this.#cutAll();
    this.#impostor.close();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  #accept(raw: Socket): void {
    this.#keep(raw);
    const { kind } = this.#weather;
    if (kind === 'reset') {
      raw.resetAndDestroy();
      return;
    }
    if (kind === 'half-open') {
      raw.pause();
      return;
    }
    if (kind === 'mute') {
      raw.resume();
      return;
    }
    const near = this.#identity === undefined ? raw : this.#encrypted(raw, this.#identity);
    if (kind === 'impostor') this.#impostor.emit('connection', near);
    else this.#join(near);
  }

  #encrypted(raw: Socket, { key, cert }: Identity): TLSSocket {
    const secure = new TLSSocket(raw, {
      isServer: true,
      secureContext: createSecureContext({ key, cert }),
      ALPNProtocols: ['h2'],
    });
    this.#keep(secure);
    return secure;
  }

  #join(near: Socket): void {
    const far = connect(this.#target, '127.0.0.1');
    this.#keep(far);
    const pair: Pair = { near, far, frames: new FrameCounter() };
    this.#pairs.add(pair);
    for (const socket of [near, far]) {
      socket.once('close', () => {
        near.destroy();
        far.destroy();
        this.#pairs.delete(pair);
      });
    }
    near.on('data', (bytes) => pass(near, far, bytes));
    far.on('data', (bytes) => this.#deliver(pair, bytes));
    const weather = this.#weather;
    if (weather.kind === 'go-away') {
      setTimeout(() => this.#weather === weather && sendAway(pair, weather), weather.afterMs).unref();
    }
  }

  #deliver({ near, far, frames }: Pair, bytes: Buffer): void {
    frames.count(bytes);
    if (this.#weather.kind !== 'drip') {
      pass(far, near, bytes);
      return;
    }
    far.pause();
    let sent = 0;
    const drip = (): void => {
      if (near.destroyed) return;
      if (this.#weather.kind !== 'drip') {
        near.write(bytes.subarray(sent));
        far.resume();
        return;
      }
      near.write(bytes.subarray(sent, sent + 1));
      sent += 1;
      if (sent < bytes.length) setTimeout(drip, this.#weather.everyMs).unref();
      else far.resume();
    };
    drip();
  }
}

function pass(from: Socket, to: Socket, bytes: Buffer): void {
  if (to.destroyed || to.write(bytes)) return;
  from.pause();
  to.once('drain', () => from.resume());
}

/** Puts a GOAWAY frame between two frames of the node's, as soon as there is such a place. */
function sendAway(
  { near, frames }: Pair,
  { code, reason }: { readonly code: number; readonly reason: string },
): void {
  const debugData = Buffer.from(reason);
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + 8);
  frame.writeUIntBE(8 + debugData.length, 0, 3);
  frame.writeUInt8(GOAWAY, 3);
  frame.writeUInt32BE(ANY_STREAM, FRAME_HEADER_BYTES);
  frame.writeUInt32BE(code, FRAME_HEADER_BYTES + 4);
  frames.whenBetween(() => near.write(Buffer.concat([frame, debugData])));
}

class FrameCounter {
  #header = Buffer.alloc(0);
  #payloadLeft = 0;
  #waiting: (() => void)[] = [];

  count(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, bytes.length - at);
        this.#payloadLeft -= taken;
        at += taken;
        continue;
      }
      const taken = Math.min(FRAME_HEADER_BYTES - this.#header.length, bytes.length - at);
      this.#header = Buffer.concat([this.#header, bytes.subarray(at, at + taken)]);
      at += taken;
      if (this.#header.length < FRAME_HEADER_BYTES) return;
      this.#payloadLeft = this.#header.readUIntBE(0, 3);
      this.#header = Buffer.alloc(0);
    }
    if (!this.#between()) return;
    // After the bytes that were counted have been passed on.
    queueMicrotask(() => {
      if (this.#between()) for (const tell of this.#waiting.splice(0)) tell();
    });
  }

  whenBetween(tell: () => void): void {
    if (this.#between()) tell();
    else this.#waiting.push(tell);
  }

  #between(): boolean {
    return this.#payloadLeft === 0 && this.#header.length === 0;
  }
}
