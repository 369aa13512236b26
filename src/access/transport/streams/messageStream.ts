import { status } from '@grpc/grpc-js';
import { abortReason, type Clock } from '../../../runtime/index.js';
import type { StreamCall, StreamSink } from '../channel/RpcChannel.js';
import type { CallStatus } from '../upstreamErrors.js';

/** How to open and decode one stream, and how to type its errors. */
export interface StreamSource<T> {
  readonly open: (sink: StreamSink) => StreamCall;
  /** An error ends the stream, and is thrown to the reader. */
  readonly decode: (message: Buffer) => T;
  /** Turns a status into the reader's error. */
  readonly fail: (callStatus: CallStatus) => Error;
}

/**
 * A server stream: each message is requested from the channel when the reader asks for it, and nothing is read ahead. The
 * first request opens the call; leaving the loop, or the signal, cancels it. Expected errors: those of the source's `fail`;
 * the signal's abort reason.
 */
export async function* messageStream<T>(
  { open, decode, fail }: StreamSource<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void> {
  if (signal.aborted) throw abortReason(signal);
  const arrived: Buffer[] = [];
  let end: { readonly error: Error | undefined } | undefined;
  let wake = (): void => undefined;
  const finish = (error?: Error): void => {
    if (end !== undefined) return;
    end = { error };
    signal.removeEventListener('abort', onAbort);
    call.cancel();
    wake();
  };
  const onAbort = (): void => finish(abortReason(signal));
  const call = open({
    onMessage: (message) => {
      arrived.push(message);
      wake();
    },
    onEnd: (callStatus) => {
      if (end === undefined) finish(callStatus.code === status.OK ? undefined : fail(callStatus));
    },
  });
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    for (;;) {
      if (end === undefined) {
        const came = new Promise<void>((resolve) => (wake = resolve));
        call.read();
        await came;
      }
      const message = arrived.shift();
      if (message !== undefined) yield decode(message);
      else if (end?.error !== undefined) throw end.error;
      else return;
    }
  } finally {
    finish();
  }
}

/** After a node refused a stream for lack of streams, no dispensable stream is opened there for this long. */
const SCARCE_MS = 60_000;

/** The priority of a stream: those of a lower rank make way first. */
export type StreamRank =
  /** Indispensable. */
  | 'needed'
  /** Its data can be polled instead, or it is forwarded. */
  | 'spare'
  /** For filling in history. */
  | 'history';

type Dispensable = Exclude<StreamRank, 'needed'>;

/** The streams of one node that make way when it grants few. */
export function streamQuota({ clock }: { readonly clock: Clock }) {
  /** A function per open stream that makes way, which ends it. */
  const open = { spare: new Set<() => void>(), history: new Set<() => void>() };
  /** Until when no stream of this rank should be opened. */
  const scarceUntilMs = { spare: -Infinity, history: -Infinity };
  return {
    /** True while no stream of this rank should be opened. */
    isScarce: (rank: Dispensable): boolean => clock.monotonic() < scarceUntilMs[rank],
    /** A stream that makes way was opened. Returns a function to call when it is over. */
    yielding(end: () => void, rank: Dispensable = 'spare'): () => void {
      open[rank].add(end);
      return () => open[rank].delete(end);
    },
    /** The node refused a stream for lack of streams: those of a lower rank make way. */
    refused(rank: StreamRank): void {
      scarceUntilMs.history = clock.monotonic() + SCARCE_MS;
      if (rank === 'history') return;
      scarceUntilMs.spare = scarceUntilMs.history;
      for (const end of [...open.history]) end();
      if (rank === 'needed') for (const end of [...open.spare]) end();
    },
  };
}
