import { WebSocket } from 'ws';
import type { HttpServer } from '../../src/api/index.js';
import { MemoryIndexStore } from '../support/memoryIndexStore.js';
import { apiServerOver } from '../support/servedChain.js';
import { smallChain } from '../support/smallChain.js';
import { mutated, oddText } from './mutation.js';
import { insist, insistReadable } from './target.js';
import type { Choices, FuzzSession, FuzzTarget, Outcome } from './target.js';

const FIRST = 100;
const chain = smallChain(FIRST, [[], [], []]);
const range = { firstIndexed: FIRST, latestIndexed: FIRST + 2, head: 110, sealed: 101 };
const codes: ReadonlySet<unknown> = new Set([400, 404, 429]);
/** Behind which nothing of what was sent is unanswered. */
const LAST = '{"action":"list_subscriptions"}';

/** Flow's WebSocket API, with messages that are almost right, and others. */
export const webSocketTarget: FuzzTarget = {
  name: 'webSocket',
  share: 10,
  concurrency: 8,
  open: () => WebSocketSession.open(),
};

interface Answer {
  readonly action?: unknown;
  readonly subscriptions?: unknown;
  readonly error?: { readonly code: unknown; readonly message: string };
}

class WebSocketSession implements FuzzSession {
  readonly #server: HttpServer;
  readonly #failures: unknown[];

  private constructor(server: HttpServer, failures: unknown[]) {
    this.#server = server;
    this.#failures = failures;
  }

  static async open(): Promise<WebSocketSession> {
    const reader = await MemoryIndexStore.startingAt(FIRST);
    await reader.commit({ blocks: chain, latestIndexedHeight: range.latestIndexed });
    const { server, failures } = apiServerOver(reader, () => range);
    await server.start();
    return new WebSocketSession(server, failures);
  }

  async run(choices: Choices): Promise<Outcome> {
    const messages = Array.from({ length: choices.few(6) }, () => message(choices));
    const input = () => messages.map(String);
    const answers = await talk(this.#server.address().port, messages);
    insist(this.#failures.length === 0, `a bug: ${String(this.#failures[0])}`, input);
    const errors = answers.flatMap(({ error = [] }) => error);
    for (const error of errors) {
      insist(codes.has(error.code), `error ${String(error.code)}`, input);
      insistReadable(error.message, input);
    }
    const listed = answers.some(({ subscriptions }) => Array.isArray(subscriptions));
    return listed ? `${errors.length} refused` : 'closed';
  }

  async close(): Promise<void> {
    await this.#server.close();
  }
}

/** All that comes until everything is answered, or the server hangs up. */
function talk(port: number, messages: readonly (string | Buffer)[]): Promise<readonly Answer[]> {
  return new Promise((resolve) => {
    const answers: Answer[] = [];
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/ws`);
    socket.on('open', () => {
      for (const each of [...messages, LAST]) socket.send(each);
    });
    let lists = 1 + messages.filter((each) => isList(String(each))).length;
    socket.on('message', (data: Buffer) => {
      const answer = JSON.parse(data.toString()) as Answer;
      answers.push(answer);
      if (answer.action === 'list_subscriptions' && 'subscriptions' in answer && (lists -= 1) === 0) {
        socket.terminate();
      }
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(answers));
  });
}

function isList(text: string): boolean {
  try {
    return (JSON.parse(text) as { readonly action?: unknown } | null)?.action === 'list_subscriptions';
  } catch {
    return false;
  }
}

function message(choices: Choices): string | Buffer {
  if (choices.once(30)) return Buffer.from(oddText(choices));
  const text = JSON.stringify(request(choices));
  if (!choices.once(4)) return text;
  const bytes = Buffer.from(text);
  return mutated(choices, bytes, bytes).toString('utf8');
}

function request(choices: Choices): unknown {
  if (choices.once(15)) return value(choices);
  return {
    action: choices.of([
      'subscribe',
      'subscribe',
      'subscribe',
      'unsubscribe',
      'list_subscriptions',
      value(choices),
    ]),
    ...(choices.once(3)
      ? {}
      : { subscription_id: choices.once(3) ? value(choices) : choices.of(['a', 'b', 'c']) }),
    ...(choices.once(8)
      ? {}
      : { topic: choices.once(6) ? value(choices) : choices.of(['blocks', 'block_digests', 'events']) }),
    ...(choices.once(8) ? {} : { arguments: choices.once(8) ? value(choices) : args(choices) }),
  };
}

function args(choices: Choices): unknown {
  const given: Record<string, unknown> = {
    block_status: choices.of(['finalized', 'sealed', value(choices)]),
  };
  if (choices.once(2))
    given['start_block_height'] = choices.of(['100', '102', '103', 101, '99', '111', value(choices)]);
  if (choices.once(4)) given['start_block_id'] = choices.of([chain[1]?.block.id, '101', value(choices)]);
  if (choices.once(10)) given[oddText(choices)] = value(choices);
  return given;
}

function value(choices: Choices): unknown {
  return choices.of([
    oddText(choices),
    1,
    -1,
    1e30,
    true,
    null,
    [],
    {},
    [[]],
    { a: { b: [] } },
    '',
    'x'.repeat(5_000),
  ]);
}
