import { unlessAborted } from '../../runtime/index.js';

/** One end of the channel between two threads: a `MessagePort` or a `Worker`. */
export interface Port {
  postMessage(message: unknown): void;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

/** The functions that a thread serves to the other one; arguments and results can be cloned. */
type Served<Functions> = Readonly<Record<keyof Functions, (...args: never[]) => unknown>>;

/** A call, with an `id` if its caller waits, or the answer to the call with this `id`. */
interface Message {
  readonly id?: number;
  readonly call?: string;
  readonly args?: readonly never[];
  readonly answer?: unknown;
}

export type Calls<Theirs extends Served<Theirs>> = ReturnType<typeof callsOver<Theirs>>;

/** Serves `ours` to the thread behind a port, and calls the functions it serves. Calls arrive in order. */
export function callsOver<Theirs extends Served<Theirs>>(port: Port, ours: object) {
  const served = ours as Readonly<Partial<Record<string, (...args: never[]) => unknown>>>;
  const asked = new Map<number, (answer: unknown) => void>();
  let lastId = 0;
  const post = (message: Message): void => port.postMessage(message);
  port.on('message', (message) => {
    const { id, call, args = [], answer } = message as Message;
    if (call === undefined) return asked.get(id ?? 0)?.(answer);
    const result = served[call]?.(...args);
    if (id !== undefined) void Promise.resolve(result).then((its) => post({ id, answer: its }));
  });
  return {
    tell: <Name extends keyof Theirs & string>(call: Name, ...args: Parameters<Theirs[Name]>): void =>
      post({ call, args }),
    /** Waits for the answer until the signal aborts. Expected errors: its reason. */
    ask: <Name extends keyof Theirs & string>(
      signal: AbortSignal | undefined,
      call: Name,
      ...args: Parameters<Theirs[Name]>
    ): Promise<Awaited<ReturnType<Theirs[Name]>>> =>
      unlessAborted<Awaited<ReturnType<Theirs[Name]>>>(signal, (settle) => {
        const id = (lastId += 1);
        asked.set(id, (answer) => settle(answer as Awaited<ReturnType<Theirs[Name]>>));
        post({ id, call, args });
        return () => asked.delete(id);
      }),
  };
}
