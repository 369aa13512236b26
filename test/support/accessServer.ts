import { status } from '@grpc/grpc-js';
import { loadProtocol, StatusError } from '../../src/devnet/index.js';
import { answer, fail, RawNode, type RawCall, type RawHandler } from './rawNode.js';

/** A message in the protobuf library's plain form. */
type Plain = Readonly<Record<string, unknown>>;

/** `cancelled` aborts when the client cancels, misses its deadline or goes away. What is refused throws a `StatusError`. */
export type UnaryHandler = (request: Plain, cancelled: AbortSignal) => object | Promise<object>;
export type StreamHandler = (request: Plain, call: PlainCall) => void;

type PlainCall = RawCall & {
  /** A plain message, or the very bytes that go out. False once no more should be written until 'drain'. */
  readonly send: (message: object) => boolean;
};

export interface AccessHandlers {
  readonly unary?: Readonly<Record<string, UnaryHandler>>;
  readonly streams?: Readonly<Record<string, StreamHandler>>;
}

/** A bare Flow access node that answers with what the handlers say, and UNIMPLEMENTED to the rest. */
export function accessServer({ unary = {}, streams = {} }: AccessHandlers): RawNode {
  const handlers: Record<string, RawHandler> = {};
  for (const definition of Object.values(loadProtocol())) {
    if ('format' in definition) continue;
    for (const [method, { path, requestDeserialize, responseSerialize }] of Object.entries(definition)) {
      const encoded = (message: object) => (Buffer.isBuffer(message) ? message : responseSerialize(message));
      const [one, many] = [unary[method], streams[method]];
      if (one !== undefined)
        handlers[path] = (call, request) => {
          const cancelled = new AbortController();
          call.on('cancelled', () => cancelled.abort());
          const asked = async () => one(requestDeserialize(request) as Plain, cancelled.signal);
          asked().then(
            (message) => answer(call, encoded(message)),
            (error: unknown) => {
              const isRefusal = error instanceof StatusError;
              fail(call, isRefusal ? status[error.status] : status.UNKNOWN, String(error));
            },
          );
        };
      if (many !== undefined)
        handlers[path] = (call, request) =>
          many(
            requestDeserialize(request) as Plain,
            Object.assign(call, { send: (message: object) => call.write(encoded(message)) }),
          );
    }
  }
  return new RawNode(handlers);
}

/** 32 bytes that begin with a number: an id that tests can read. */
export function testId(number: number): Buffer {
  const id = Buffer.alloc(32);
  id.writeUInt32BE(number, 0);
  return id;
}

/** A block in light form whose id and parent follow from its height. */
export function testBlock(height: number): object {
  return {
    id: testId(height),
    parent_id: testId(Math.max(0, height - 1)),
    height: String(height),
    timestamp: { seconds: String(1_700_000_000 + height), nanos: 0 },
    collection_guarantees: [],
    signatures: [Buffer.from('aggregated')],
  };
}
