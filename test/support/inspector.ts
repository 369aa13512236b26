import { WebSocket } from 'ws';

/** Has the worker thread of a process that was started with `--inspect` evaluate an expression; it need not come to an end. */
export async function inspectReaders(port: number, expression: string): Promise<void> {
  const [target] = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as [
    { readonly webSocketDebuggerUrl: string },
  ];
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  await new Promise((resolve) => socket.once('open', resolve));
  const send = (id: number, method: string, params: object): void =>
    socket.send(JSON.stringify({ id, method, params }));
  const isTaken = new Promise<void>((resolve) => {
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as {
        readonly id?: number;
        readonly method?: string;
        readonly params: { readonly sessionId: string };
      };
      if (message.method === 'NodeWorker.attachedToWorker') {
        const evaluate = { id: 1, method: 'Runtime.evaluate', params: { expression } };
        send(2, 'NodeWorker.sendMessageToWorker', {
          sessionId: message.params.sessionId,
          message: JSON.stringify(evaluate),
        });
      } else if (message.id === 2) resolve();
    });
  });
  send(1, 'NodeWorker.enable', { waitForDebuggerOnStart: false });
  await isTaken;
  // A debugger that stays would be told of the thread's end, and wait for it.
  socket.terminate();
}
