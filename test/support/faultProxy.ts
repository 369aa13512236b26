import { createServer as createHttp2Server } from 'node:http2';
import type { Http2Server, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { createSecureContext, TLSSocket, type TLSSocketOptions } from 'node:tls';
import { atEnd } from './cleanup.js';
import { TcpGate } from './TcpGate.js';

export type Weather =
  | { readonly kind: 'fair' }
  /** Nobody listens, and what was connected is cut. */
  | { readonly kind: 'refused' }
  /** Every connection is reset as soon as it stands. */
  | { readonly kind: 'reset' }
  /** So is every further one; those that stand stay. */
  | { readonly kind: 'full' }
  /** Connections stand and nothing comes through them, either way; old ones as well as new ones. */
  | { readonly kind: 'half-open' }
  /** Connections are taken, read from and never answered: no SETTINGS frame comes. */
  | { readonly kind: 'mute' }
  /** The node's bytes arrive one by one, this far apart. */
  | { readonly kind: 'drip'; readonly everyMs: number }
  /** Whoever connects is told to go away after this time, and is answered nothing before. */
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

const UNAVAILABLE = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '14' };

/** Stands between a daemon and its node and makes the weather. With an identity it speaks TLS to the daemon. */
export class FaultProxy extends TcpGate {
  /** Under which names the daemon asked for the node (SNI). */
  readonly serverNames: string[] = [];
  readonly #target: number;
  readonly #impostor: Http2Server;
  #weather: Weather = { kind: 'fair' };
  #identity: Identity | undefined;

  private constructor(target: { readonly port: number }, identity?: Identity) {
    super();
    this.#target = target.port;
    this.#identity = identity;
    this.#impostor = createHttp2Server();
    this.#impostor.on('stream', (stream, headers) => {
      stream.on('error', () => undefined);
      if (this.#weather.kind === 'impostor') this.#weather.answer(stream, headers);
      else stream.respond(UNAVAILABLE, { endStream: true });
    });
    this.#impostor.on('session', (session) => {
      if (this.#weather.kind !== 'go-away') return;
      const { afterMs, code, reason } = this.#weather;
      setTimeout(() => session.destroyed || session.goaway(code, 0, Buffer.from(reason)), afterMs).unref();
    });
    this.#impostor.on('sessionError', () => undefined);
  }

  /** Until the end of the test. */
  static async before(target: { readonly port: number }, identity?: Identity): Promise<FaultProxy> {
    const proxy = new FaultProxy(target, identity);
    await proxy.up();
    atEnd(async () => {
      proxy.#impostor.close();
      await proxy.down();
    });
    return proxy;
  }

  /** Changes the weather. New connections show another certificate from now on, if one is given. */
  async become(weather: Weather, identity?: Identity): Promise<void> {
    this.#identity = identity ?? this.#identity;
    const before = this.#weather.kind;
    this.#weather = weather;
    if (before === 'refused' && weather.kind !== 'refused') await this.up();
    if (weather.kind === 'refused') await this.down();
    else if (weather.kind === 'half-open') this.silence();
    // What a fault left behind does not heal: a real network forgets connections, too.
    else if (!/drip|full/.test(weather.kind) && (weather.kind !== 'fair' || before !== 'fair')) this.cut();
  }

  /** The end of the weather as a wire brings it: what stood still moves on, nothing is cut. */
  override thaw(): void {
    this.#weather = { kind: 'fair' };
    super.thaw();
  }

  protected accept(raw: Socket): void {
    const { kind } = this.#weather;
    if (kind === 'reset' || kind === 'full') raw.resetAndDestroy();
    else if (kind === 'half-open') raw.pause();
    else if (kind === 'mute') raw.resume();
    else {
      const near = this.#identity === undefined ? raw : this.#encrypted(raw, this.#identity);
      if (kind === 'impostor' || kind === 'go-away') this.#impostor.emit('connection', near);
      else this.#join(near);
    }
  }

  #encrypted(raw: Socket, { key, cert }: Identity): TLSSocket {
    const secureContext = createSecureContext({ key, cert });
    const SNICallback: TLSSocketOptions['SNICallback'] = (name, done) => {
      this.serverNames.push(name);
      done(null, secureContext);
    };
    return this.keep(
      new TLSSocket(raw, { isServer: true, secureContext, SNICallback, ALPNProtocols: ['h2'] }),
    );
  }

  #join(near: Socket): void {
    const far = this.keep(connect(this.#target, '127.0.0.1'));
    this.tie(near, far);
    near.on('data', (bytes) => pass(near, far, bytes));
    far.on('data', (bytes) => this.#deliver(near, far, bytes));
  }

  #deliver(near: Socket, far: Socket, bytes: Buffer): void {
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
