import { connect, type Socket } from 'node:net';
import { TcpGate } from './TcpGate.js';

/** What a client asks of a database at once: to be let in, or everything up to the answer that it waits for. */
export interface DatabaseRequest {
  readonly kind: 'startup' | 'statements';
  /** Of a startup its parameters; else the statements, prepared ones included. */
  readonly text: string;
}

/** What comes in place of the database's answer: an error, as a server words it, or bytes. */
export type ScriptedAnswer =
  | {
      readonly code?: string;
      readonly message: string;
      readonly hint?: string;
      /** `FATAL` ends the connection. Default: so at the startup alone. */
      readonly severity?: 'ERROR' | 'FATAL';
    }
  | { readonly bytes: Buffer };

type Script = (request: DatabaseRequest) => ScriptedAnswer | undefined;

/** A way to a database that can be cut, that can fall silent, and that can answer in its place. */
export class TcpFaults extends TcpGate {
  /** Connections cut at a word. */
  cuts = 0;
  /** Answers in place of the database, from now on. */
  script: Script = () => undefined;
  readonly #target: URL;
  #word: string | undefined;
  #withheld: string | undefined;
  #isFrozen = false;

  private constructor(target: URL) {
    super();
    this.#target = target;
  }

  static async before(url: string): Promise<TcpFaults> {
    const faults = new TcpFaults(new URL(url));
    await faults.up();
    return faults;
  }

  get url(): string {
    return elsewhere(this.#target.href, this.port);
  }

  /** Of the next request with this word only the beginning, up to the word's statement, arrives; then nothing passes. */
  withholdRest(word: string): void {
    this.#withheld = word;
  }

  /** The next connection that sends this gets no answer any more: it is cut once the database has answered. */
  cutAfterRequest(word: string): void {
    this.#word = word;
  }

  /** Nothing passes any more, either way, and nobody is told; new connections come about all the same. */
  freeze(): void {
    this.#isFrozen = true;
    this.silence();
  }

  override thaw(): void {
    this.#isFrozen = false;
    super.thaw();
  }

  protected accept(socket: Socket): void {
    const { hostname, port } = this.#target;
    const upstream = this.keep(connect(Number(port || 5432), hostname));
    this.tie(socket, upstream);
    const requests = new RequestReader();
    let isCut = false;
    socket.on('data', (data) => {
      if (this.#word !== undefined && data.includes(this.#word)) {
        this.#word = undefined;
        isCut = true;
      }
      for (const { bytes, ...request } of requests.read(data)) {
        const answer = request.kind === 'none' ? undefined : this.script({ ...request, kind: request.kind });
        if (answer === undefined && this.#withheld !== undefined && request.text.includes(this.#withheld)) {
          this.#withheld = undefined;
          this.cuts += 1;
          upstream.write(bytes.subarray(0, bytes.lastIndexOf('COPY')));
          socket.pause();
          upstream.pause();
        } else if (answer === undefined) upstream.write(bytes);
        else give(socket, request.kind, answer);
      }
    });
    upstream.on('data', (data) => {
      if (!isCut) {
        socket.write(data);
        return;
      }
      this.cuts += 1;
      socket.destroy();
    });
    if (this.#isFrozen) for (const each of [socket, upstream]) each.pause();
  }
}

/** The same database at another port of this machine. */
export function elsewhere(target: string, port: number): string {
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return url.href;
}

function give(socket: Socket, kind: string, answer: ScriptedAnswer): void {
  if ('bytes' in answer) {
    socket.write(answer.bytes);
    return;
  }
  const { code, hint, message, severity = kind === 'startup' ? 'FATAL' : 'ERROR' } = answer;
  const said = [code && `C${code}`, `M${message}`, hint && `H${hint}`].filter((each) => each !== undefined);
  const fields = [`S${severity}`, `V${severity}`, ...said];
  const error = messageOf('E', Buffer.from(`${fields.join('\0')}\0\0`));
  if (severity === 'FATAL') socket.end(error);
  else socket.write(Buffer.concat([error, messageOf('Z', Buffer.from('I'))]));
}

export function messageOf(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

interface ReadRequest {
  readonly kind: DatabaseRequest['kind'] | 'none';
  readonly text: string;
  readonly bytes: Buffer;
}

const SYNC = 'S';
const SIMPLE_QUERY = 'Q';
/** The messages that a `Sync` ends; all others, such as a password, stand for themselves. */
const BATCHED = 'PBDECdcfH';

/** Finds out what a client asks, and where each question ends. */
export class RequestReader {
  readonly #prepared = new Map<string, string>();
  #rest = Buffer.alloc(0);
  #isIn = false;
  #batch: Buffer[] = [];
  #texts: string[] = [];

  read(data: Buffer): ReadRequest[] {
    this.#rest = Buffer.concat([this.#rest, data]);
    const found: ReadRequest[] = [];
    for (;;) {
      // The first message has no type.
      const typeBytes = this.#isIn ? 1 : 0;
      if (this.#rest.length < typeBytes + 4) return found;
      const length = typeBytes + this.#rest.readInt32BE(typeBytes);
      if (this.#rest.length < length) return found;
      const bytes = this.#rest.subarray(0, length);
      this.#rest = this.#rest.subarray(length);
      const request = this.#isIn
        ? this.#message(bytes)
        : { kind: 'startup' as const, text: bytes.toString('latin1', 8), bytes };
      this.#isIn = true;
      if (request !== undefined) found.push(request);
    }
  }

  #message(bytes: Buffer): ReadRequest | undefined {
    const type = String.fromCharCode(bytes[0] ?? 0);
    const [first = '', second = ''] = bytes.toString('utf8', 5).split('\0', 2);
    if (type === SIMPLE_QUERY) return { kind: 'statements', text: first, bytes };
    if (type === 'P') {
      this.#prepared.set(first, second);
      if (first === '') this.#texts.push(second);
    }
    if (type === 'B' && second !== '') this.#texts.push(this.#prepared.get(second) ?? second);
    if (type !== SYNC && !BATCHED.includes(type)) return { kind: 'none', text: '', bytes };
    this.#batch.push(bytes);
    if (type !== SYNC) return undefined;
    const whole = {
      kind: 'statements' as const,
      text: this.#texts.join(';\n'),
      bytes: Buffer.concat(this.#batch),
    };
    this.#batch = [];
    this.#texts = [];
    return whole;
  }
}
