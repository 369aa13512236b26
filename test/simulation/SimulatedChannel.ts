import { status } from '@grpc/grpc-js';
import type { StreamCall } from '../../src/access/index.js';
import type { CallStatus } from '../../src/access/transport/upstreamErrors.js';
import type { ChannelOptions } from '../../src/access/transport/channel/connection.js';
import type { Channel, StreamSink } from '../../src/access/transport/channel/rpcChannel.js';
import { loadProtocol, methods, StatusError } from '../../src/devnet/index.js';
import type { DevnetMethod, DevnetRequest } from '../../src/devnet/index.js';
import { WireWriter } from '../../src/flow/index.js';
import { abortReason, type Clock } from '../../src/runtime/index.js';
import type { ProcessClock } from './SimulatedClock.js';
import type { SimulatedEndpoint } from './SimulatedEndpoint.js';

/** Messages that a stream holds for a reader who does not read: the flow-control window. */
const STREAM_WINDOW_MESSAGES = 4;

/** What the process at the client's end has, and whether it still lives. */
export interface ClientProcess {
  readonly clock: ProcessClock;
  readonly isDead: boolean;
}

export interface CallObserver {
  /** Run the answer once, with `OK`, `ABORTED_BY_US` or the name of the status. */
  onCall(endpoint: string, method: DevnetMethod, request: DevnetRequest): (outcome: string) => void;
  onRead(endpoint: string, method: DevnetMethod, request: DevnetRequest, reads: number): void;
}

interface MethodOfPath {
  readonly method: DevnetMethod;
  readonly decode: (request: Buffer) => DevnetRequest;
  /** What the client is to see of a node's answer. Default: all of it. */
  readonly encode?: (answer: Buffer) => Buffer;
}

export class RequestReader {
  readonly #methods = new Map<string, MethodOfPath>();

  constructor() {
    const protocol = loadProtocol();
    for (const [method, { service }] of Object.entries(methods)) {
      const definition = protocol[service];
      if (definition === undefined || 'format' in definition) throw new Error(`${service} is no service`);
      const { path, requestDeserialize: decode } = definition[method] ?? {};
      if (path !== undefined && decode !== undefined)
        this.#methods.set(path, { method: method as DevnetMethod, decode });
    }
    // A peer that has no proofs. Its requests have the height at the same place, and its answers the block one level deeper.
    for (const [provable, plain] of [
      ['GetProvableBlock', 'GetBlockByHeight'],
      ['SubscribeProvableBlocks', 'SubscribeBlocksFromStartHeight'],
    ]) {
      this.#methods.set(`/flow_collection_indexer.v1.IndexAPI/${provable}`, {
        ...this.#of(`/flow.access.AccessAPI/${plain}`),
        encode: (answer) => new WireWriter().bytes(1, answer).finish(),
      });
    }
    // It keeps nothing of who signs either.
    this.#methods.set('/flow_collection_indexer.v1.IndexAPI/GetCommitteeEvidence', {
      ...this.#of('/flow.access.AccessAPI/GetProtocolStateSnapshotByHeight'),
      encode: () => Buffer.alloc(0),
    });
  }

  read(path: string, request: Buffer) {
    const { method, decode, encode = (answer: Buffer) => answer } = this.#of(path);
    return { method, request: decode(request), encode };
  }

  #of(path: string): MethodOfPath {
    const known = this.#methods.get(path);
    if (known === undefined) throw new Error(`nobody knows ${path}`);
    return known;
  }
}

export interface ChannelDependencies {
  readonly process: ClientProcess;
  readonly endpoint: SimulatedEndpoint;
  readonly reader: RequestReader;
  readonly observer: CallObserver;
  /** The world's clock: answers travel whether or not anybody waits for them. */
  readonly worldClock: Clock;
}

const OK: CallStatus = { code: status.OK, details: '' };
const CLOSED = unavailable('the channel is closed');
const REFUSED = unavailable('No connection established. Last error: connect ECONNREFUSED');
export const RESET = unavailable('Connection dropped');
const DEADLINE: CallStatus = { code: status.DEADLINE_EXCEEDED, details: 'Deadline exceeded' };

/** The port to a node, over a network that loses, delays, repeats and breaks. */
export class SimulatedChannel implements Channel {
  readonly #options: ChannelOptions;
  readonly #deps: ChannelDependencies;
  #isClosed = false;

  constructor(options: ChannelOptions, dependencies: ChannelDependencies) {
    this.#options = options;
    this.#deps = dependencies;
  }

  unary(
    path: string,
    bytes: Buffer,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<Buffer | CallStatus> {
    const { endpoint, observer, process, reader, worldClock } = this.#deps;
    const { method, request, encode } = reader.read(path, bytes);
    const ended = observer.onCall(endpoint.name, method, request);
    // In the turn in which a process dies its code goes on, and reaches nobody.
    if (process.isDead) return new Promise(() => undefined);
    if (signal?.aborted === true) {
      ended('ABORTED_BY_US');
      return Promise.reject(abortReason(signal));
    }
    return new Promise((resolve, reject) => {
      const server = new AbortController();
      let isOver = false;
      const finish = (outcome: string, act: () => void): void => {
        if (isOver) return;
        isOver = true;
        deadline.cancel();
        signal?.removeEventListener('abort', onAbort);
        leave();
        server.abort();
        if (process.isDead) return;
        ended(outcome);
        act();
      };
      const fail = (callStatus: CallStatus): void =>
        finish(status[callStatus.code], () => resolve(callStatus));
      const onAbort = (): void => finish('ABORTED_BY_US', () => reject(abortReason(signal)));
      const deadline = process.clock.setTimer(timeoutMs, () => fail(DEADLINE));
      const leave = endpoint.enter({ broken: fail, severed: () => undefined });
      signal?.addEventListener('abort', onAbort, { once: true });
      if (this.#isClosed) {
        queueMicrotask(() => fail(CLOSED));
        return;
      }
      const { thereMs, backMs, isLost, isTwice, isCorrupt } = endpoint.fate(method);
      const arrive = (callStatus: CallStatus, answer: Buffer | undefined): void => {
        worldClock.setTimer(backMs, () => {
          if (answer === undefined) fail(callStatus);
          else if (answer.length > this.#options.maxMessageBytes) fail(this.#tooLarge(answer));
          else finish('OK', () => resolve(answer));
        });
      };
      worldClock.setTimer(thereMs, () => {
        if (isOver || isLost || endpoint.state === 'silent') return;
        if (endpoint.state === 'refusing') {
          fail(REFUSED);
          return;
        }
        const { calls } = endpoint.backend();
        const connection = { reset: () => endpoint.reset() };
        const ask = (): Promise<Buffer> =>
          calls.answer(method, request, { signal: server.signal, connection });
        if (isTwice) ask().catch(() => undefined);
        ask().then(
          (answer) => {
            const sent = encode(answer);
            arrive(OK, isCorrupt ? endpoint.corrupted(sent) : sent);
          },
          this.#unlessAborted(server, (callStatus) => arrive(callStatus, undefined)),
        );
      });
    });
  }

  stream(path: string, bytes: Buffer, sink: StreamSink): StreamCall {
    const { endpoint, observer, process, reader, worldClock } = this.#deps;
    const { method, request, encode } = reader.read(path, bytes);
    const ended = observer.onCall(endpoint.name, method, request);
    if (process.isDead) return { read: () => undefined, cancel: () => undefined };
    const server = new AbortController();
    const arrived: Buffer[] = [];
    const travelling: (() => void)[] = [];
    let end: CallStatus | undefined;
    let reads = 0;
    let wanted = 0;
    let unread = 0;
    let isOver = false;
    let isSevered = false;
    let arrivesAtMs = 0;
    let drained = (): void => undefined;

    const finish = (callStatus: CallStatus, isOurs = false): void => {
      if (isOver) return;
      isOver = true;
      leave();
      server.abort();
      if (process.isDead) return;
      ended(isOurs ? 'ABORTED_BY_US' : status[callStatus.code]);
      if (!isOurs) sink.onEnd(callStatus);
    };
    const pump = (): void => {
      while (!isOver && !process.isDead && wanted > 0 && arrived.length > 0) {
        const message = arrived.shift()!;
        wanted -= 1;
        unread -= 1;
        drained();
        if (message.length > this.#options.maxMessageBytes) finish(this.#tooLarge(message));
        else sink.onMessage(message);
      }
      if (end !== undefined && arrived.length === 0) finish(end);
    };
    /** In order behind what was sent before. */
    const later = (arrive: () => void): void => {
      const { backMs, isLost } = endpoint.fate(method);
      if (isLost) isSevered = true;
      travelling.push(arrive);
      arrivesAtMs = Math.max(arrivesAtMs, worldClock.monotonic() + backMs);
      worldClock.setTimer(arrivesAtMs - worldClock.monotonic(), () => {
        const first = travelling.shift();
        if (isOver || isSevered) return;
        first?.();
        pump();
      });
    };
    const leave = endpoint.enter({
      broken: (callStatus) => finish(callStatus),
      severed: () => {
        isSevered = true;
        server.abort();
      },
    });
    if (this.#isClosed) {
      queueMicrotask(() => finish(CLOSED));
      return { read: () => undefined, cancel: () => finish(OK, true) };
    }
    worldClock.setTimer(endpoint.fate(method).thereMs, () => {
      if (isOver || endpoint.state === 'silent') return;
      if (endpoint.state === 'refusing') {
        finish(REFUSED);
        return;
      }
      const { subscriptions } = endpoint.backend();
      const messages = {
        reset: () => endpoint.reset(),
        write: (message: Buffer) => {
          const { isCorrupt } = endpoint.fate(method);
          const encoded = encode(message);
          const sent = isCorrupt ? endpoint.corrupted(encoded) : encoded;
          unread += 1;
          later(() => arrived.push(sent));
          return unread < STREAM_WINDOW_MESSAGES;
        },
        drained: (signal: AbortSignal) =>
          new Promise<void>((resolve, reject) => {
            if (unread < STREAM_WINDOW_MESSAGES) {
              resolve();
              return;
            }
            const onAbort = (): void => reject(abortReason(signal));
            drained = () => {
              signal.removeEventListener('abort', onAbort);
              resolve();
            };
            signal.addEventListener('abort', onAbort, { once: true });
          }),
      };
      subscriptions.run(method, request, { sink: messages, signal: server.signal }).then(
        () => later(() => (end = OK)),
        this.#unlessAborted(server, (callStatus) => later(() => (end = callStatus))),
      );
    });
    return {
      read: () => {
        reads += 1;
        wanted += 1;
        if (!isOver) observer.onRead(endpoint.name, method, request, reads);
        // The answer never comes within the question.
        queueMicrotask(pump);
      },
      cancel: () => finish(OK, true),
    };
  }

  close(): void {
    this.#isClosed = true;
  }

  /** What the node refused with. */
  #unlessAborted({ signal }: AbortController, refused: (callStatus: CallStatus) => void) {
    return (error: unknown): void => {
      if (signal.aborted) return;
      if (!(error instanceof StatusError)) this.#deps.endpoint.onBug(error);
      else refused({ code: status[error.status], details: error.details });
    };
  }

  #tooLarge(message: Buffer): CallStatus {
    const details = `Received message larger than max (${message.length} vs. ${this.#options.maxMessageBytes})`;
    return { code: status.RESOURCE_EXHAUSTED, details };
  }
}

function unavailable(details: string): CallStatus {
  return { code: status.UNAVAILABLE, details };
}
