import { jsonIn, quoted } from '../../runtime/index.js';
import { invalidArgument as invalid } from '../view/ApiError.js';
import { decodeBlock } from '../../flow/index.js';
import { heightEventOf, type FeedEvent, type Following, type StartPoint } from '../feed/following.js';
import { A_HEIGHT, parseBlockKey, parseHeight } from '../view/queryParameters.js';
import { restBlock, rfc3339 } from '../json.js';

/** The longest subscription id that a client may choose, as on access nodes. */
const MAX_ID_LENGTH = 20;
/** Objects and lists of one message: far more take seconds to read, and very deep ones cannot be written again. */
const MAX_PARTS = 1_000;

const actions = ['subscribe', 'unsubscribe', 'list_subscriptions'] as const;
type Action = (typeof actions)[number];
type Fields = Readonly<Record<string, unknown>>;

/** A client's request. Only `subscribe` may come without an id. */
export type ClientMessage =
  | {
      readonly action: 'subscribe';
      readonly id: string | undefined;
      readonly topic: string;
      readonly args: Fields;
    }
  | { readonly action: 'unsubscribe'; readonly id: string }
  | { readonly action: 'list_subscriptions' };

/** The JSON of a text frame. Expected errors: ApiError (400). */
export function messageIn(text: string): unknown {
  if (text.split(/[[{]/, MAX_PARTS + 2).length > MAX_PARTS + 1)
    throw invalid(`error reading message: it may have ${MAX_PARTS} objects and lists`);
  const message = jsonIn(text);
  if (message === undefined) throw invalid('error reading message: it is not JSON');
  return message;
}

/** Whom the answer to a message is to name, whether it makes sense or not. An id that is too long is cut off. */
export function addressOf(message: unknown): {
  readonly action?: Action | undefined;
  readonly id?: string | undefined;
} {
  const action = isObject(message) ? actions.find((known) => known === message['action']) : undefined;
  if (!isObject(message) || action === undefined || action === 'list_subscriptions') return { action };
  const id = message['subscription_id'];
  return { action, id: typeof id === 'string' && id !== '' ? id.slice(0, MAX_ID_LENGTH) : undefined };
}

/** Expected errors: ApiError (400). */
export function parseMessage(message: unknown): ClientMessage {
  if (!isObject(message)) throw invalid('error parsing message: it is not a JSON object');
  const { action: given, subscription_id: id = '', topic, arguments: args = {} } = message;
  const action = actions.find((known) => known === given);
  if (action === undefined) {
    const shown = typeof given === 'string' ? quoted(given) : 'none';
    throw invalid(`error parsing message: unknown action type: ${shown}`);
  }
  if (action === 'list_subscriptions') return { action };
  if (typeof id !== 'string') throw invalid('error parsing message: subscription_id must be a string');
  if (id.length > MAX_ID_LENGTH)
    throw invalid(`error parsing subscription id: it has more than ${MAX_ID_LENGTH} characters`);
  if (action === 'unsubscribe') {
    if (id !== '') return { action, id };
    throw invalid('error parsing subscription id: it is missing');
  }
  if (typeof topic !== 'string') throw invalid('error parsing message: topic must be a string');
  if (!isObject(args)) throw invalid('error parsing message: arguments must be an object');
  return { action, id: id === '' ? undefined : id, topic, args };
}

/**
 * The subscription that a message of a node ends, and how: by an error, or by the last status of a transaction, after which
 * nodes forget it without a word. Data, which may be large, is not read; a quote within a string would be escaped.
 */
export function endedBy(text: string): readonly [id: string, outcome: 'answered' | 'failed'] | undefined {
  const isLast = /"status":"(?:Sealed|Expired)"/.test(text);
  if (!isLast && !text.includes('"action"')) return undefined;
  const message = jsonIn(text);
  if (!isObject(message) || typeof message['subscription_id'] !== 'string') return undefined;
  const { error, payload, subscription_id: id } = message;
  if (isObject(error)) return [id, 'failed'];
  return isLast && isObject(payload) && isObject(payload['transaction_result'])
    ? [id, 'answered']
    : undefined;
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A topic that the index itself serves. */
export interface BlockTopic {
  readonly kind: Following['kind'];
  /** What a subscriber receives for a height. */
  readonly payload: (event: FeedEvent, until: Following['until']) => unknown;
}

export const blockTopics: ReadonlyMap<string, BlockTopic> = new Map<string, BlockTopic>([
  ['blocks', { kind: 'ws_blocks', payload: blockPayload }],
  ['block_digests', { kind: 'ws_digests', payload: digestPayload }],
]);

/** The head that a subscriber follows, by its name. */
const heads: ReadonlyMap<unknown, Following['until']> = new Map<unknown, Following['until']>([
  ['finalized', 'indexed'],
  ['sealed', 'sealed'],
]);
const known: ReadonlySet<string> = new Set(['block_status', 'start_block_id', 'start_block_height']);

/**
 * Which head is followed, and from where. A number is accepted for its text, and a height for an id: that is how the
 * transport of @onflow/sdk resumes `block_digests`. Expected errors: ApiError (400).
 */
export function parseBlockArguments(args: Fields): {
  readonly until: Following['until'];
  readonly start: StartPoint;
} {
  const other = Object.keys(args).find((name) => !known.has(name));
  if (other !== undefined) throw invalid(`unexpected field: ${quoted(other)}`);
  const until = heads.get(args['block_status']);
  if (until === undefined) throw invalid("'block_status' must be 'finalized' or 'sealed'");
  const id = textOf(args, 'start_block_id');
  const height = textOf(args, 'start_block_height');
  if (id !== undefined && height !== undefined) {
    throw invalid("can only provide either 'start_block_id' or 'start_block_height'");
  }
  return { until, start: startOf(id, height) };
}

/** The latest sealed block by default, also for finalized ones, as on access nodes. */
function startOf(id: string | undefined, height: string | undefined): StartPoint {
  if (id !== undefined) {
    const key = parseBlockKey(id);
    return typeof key === 'number' ? { height: key } : { blockId: key };
  }
  if (height === undefined) return 'sealed';
  const parsed = parseHeight(height);
  if (parsed === undefined) throw invalid(`'start_block_height' must be a ${A_HEIGHT}`);
  return { height: parsed };
}

function textOf(args: Fields, name: string): string | undefined {
  const value = args[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') return value;
  throw invalid(`'${name}' must be a string`);
}

function blockPayload(event: FeedEvent, until: Following['until']): unknown {
  const { stored, isProven } = heightEventOf(event);
  const { encoded, height } = stored.block;
  return restBlock(encoded, until === 'sealed' ? height : undefined, { payload: true, proven: isProven });
}

function digestPayload(event: FeedEvent): unknown {
  const { stored, isProven } = heightEventOf(event);
  const { id, height, encoded } = stored.block;
  const { timestamp } = decodeBlock(encoded);
  return { block_id: id, height: String(height), timestamp: rfc3339(timestamp), proven: isProven };
}
