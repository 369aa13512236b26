import { WebSocket } from 'ws';
import { atEnd, apiServerOver } from '../support/index.js';
import { mutated, oddText } from './mutation.js';
import { chain, range, servedStore } from './servedBlocks.js';
import { insist, insistReadable, type Choices, type FuzzTarget, type Run } from './target.js';

const codes: ReadonlySet<unknown> = new Set([400, 404, 429]);
/** Behind which nothing of what was sent is unanswered. */
const LAST = '{"action":"list_subscriptions"}';

export const webSocketTarget: FuzzTarget = { name: 'webSocket', share: 10, concurrency: 8, open: openServer };

interface Answer {
  readonly action?: unknown;
  readonly subscriptions?: unknown;
  readonly error?: { readonly code: unknown; readonly message: string };
}

async function openServer(): Promise<Run> {
  const { server, failures } = apiServerOver(await servedStore(), () => range);
  await server.start();
  atEnd(() => server.close());
  return async (choices) => {
    const messages = Array.from({ length: choices.few(6) }, () => message(choices));
    const input = () => messages.map(String);
    const answers = await talk(server.address().port, messages);
    insist(failures.length === 0, `a bug: ${String(failures[0])}`, input);
    const errors = answers.flatMap(({ error = [] }) => error);
    for (const error of errors) {
      insist(codes.has(error.code), `error ${String(error.code)}`, input);
      insistReadable(error.message, input);
    }
    const listed = answers.some(({ subscriptions }) => Array.isArray(subscriptions));
    return listed ? `${errors.length} refused` : 'closed';
  };
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
      if (answer.action === 'list_subscriptions' && 'subscriptions' in answer && (lists -= 1) === 0)
        socket.terminate();
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
    action: choices.once(2) ? 'subscribe' : choices.of(['unsubscribe', 'list_subscriptions', value(choices)]),
    ...(!choices.once(3) && { subscription_id: choices.of(['a', 'a', 'b', 'c', value(choices)]) }),
    ...(!choices.once(8) && {
      topic: choices.of(['blocks', 'block_headers', 'block_digests', 'events', value(choices)]),
    }),
    ...(!choices.once(8) && { arguments: choices.once(8) ? value(choices) : args(choices) }),
  };
}

function args(choices: Choices): unknown {
  const given: Record<string, unknown> = {
    block_status: choices.of(['finalized', 'sealed', value(choices)]),
  };
  if (choices.once(2))
    given['start_block_height'] = choices.of(['100', '107', '108', 101, '99', '121', value(choices)]);
  if (choices.once(4)) given['start_block_id'] = choices.of([chain[1]?.block.id, '101', value(choices)]);
  if (choices.once(10)) given[oddText(choices)] = value(choices);
  return given;
}

function value(choices: Choices): unknown {
  const texts = [oddText(choices), '', 'x'.repeat(5_000)];
  return choices.of([...texts, 1, -1, 1e30, true, null, [], {}, [[]], { a: { b: [] } }]);
}
