import { quoted } from '../../runtime/index.js';
import { RefusedMessage } from './RefusedMessage.js';

/** The longest subscription id that a client may choose, as on access nodes. */
const MAX_ID_LENGTH = 20;

const actions = ['subscribe', 'unsubscribe', 'list_subscriptions'] as const;
export type Action = (typeof actions)[number];

/** A subscription's arguments, as received. */
export type Arguments = Readonly<Record<string, unknown>>;

/** A client's request. Only `subscribe` may come without an id. */
export type ClientMessage =
  | {
      readonly action: 'subscribe';
      readonly id: string | undefined;
      readonly topic: string;
      readonly args: Arguments;
    }
  | { readonly action: 'unsubscribe'; readonly id: string }
  | { readonly action: 'list_subscriptions' };

/** Reads one text frame. Expected errors: RefusedMessage (400). */
export function parseMessage(text: string): ClientMessage {
  const message = parsedObject(text);
  const action = actions.find((known) => known === message['action']);
  if (action === undefined) {
    const shown = typeof message['action'] === 'string' ? quoted(message['action']) : 'none';
    throw new RefusedMessage(400, `error parsing message: unknown action type: ${shown}`);
  }
  if (action === 'list_subscriptions') return { action };
  const id = subscriptionId(message['subscription_id'], action);
  if (action === 'unsubscribe') {
    if (id !== undefined) return { action, id };
    throw new RefusedMessage(400, 'error parsing subscription id: it is missing', action);
  }
  const { topic, arguments: args = {} } = message;
  if (typeof topic !== 'string') throw malformed('topic must be a string', action, id);
  if (!isObject(args)) throw malformed('arguments must be an object', action, id);
  return { action, id, topic, args };
}

/** The addressee of a node's message, and whether it ends a subscription. */
export function readNodeMessage(text: string): {
  readonly id: string | undefined;
  readonly isRefusal: boolean;
} {
  const message = parsedJson(text);
  if (!isObject(message)) return { id: undefined, isRefusal: false };
  const { subscription_id: id, error } = message;
  return { id: typeof id === 'string' ? id : undefined, isRefusal: isObject(error) };
}

function parsedObject(text: string): Readonly<Record<string, unknown>> {
  const message = parsedJson(text);
  if (isObject(message)) return message;
  throw new RefusedMessage(
    400,
    message === undefined
      ? 'error reading message: it is not JSON'
      : 'error parsing message: it is not a JSON object',
  );
}

/** `undefined` for anything that is not JSON. */
function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function subscriptionId(value: unknown, action: Action): string | undefined {
  if (value === undefined || value === '') return undefined;
  if (typeof value !== 'string') throw malformed('subscription_id must be a string', action);
  if (value.length <= MAX_ID_LENGTH) return value;
  const message = `error parsing subscription id: it has more than ${MAX_ID_LENGTH} characters`;
  throw new RefusedMessage(400, message, action, value.slice(0, MAX_ID_LENGTH));
}

function malformed(what: string, action: Action, id?: string): RefusedMessage {
  return new RefusedMessage(400, `error parsing message: ${what}`, action, id);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
