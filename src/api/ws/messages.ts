import { jsonIn, quoted } from '../../runtime/index.js';
import { invalidArgument as invalid } from '../view/ApiError.js';
import { timeOfBlock } from '../../flow/index.js';
import type { Following, HeightEvent, StartPoint } from '../feed/following.js';
import { A_HEIGHT, parseBlockKey, parseHeight } from '../view/queryParameters.js';
import { blockBody, restBlock, rfc3339 } from '../json.js';

/** The longest subscription id that a client may choose, as on access nodes. */
const MAX_ID_LENGTH = 20;
/** Objects and lists of one message: far more take seconds to read, and very deep ones cannot be written again. */
const MAX_PARTS = 1_000;

const actions = ['subscribe', 'unsubscribe', 'list_subscriptions'] as const;
type Fields = Readonly<Record<string, unknown>>;

/** A client's request, as far as it makes sense: the answer names its action and id. */
export interface ClientMessage {
  readonly action: (typeof actions)[number] | undefined;
  /** Only `subscribe` may come without an id. One that is too long is cut off. */
  readonly id: string | undefined;
  readonly topic: string;
  readonly args: Fields;
  /** What is wrong with it. */
  readonly fault: string | undefined;
}

/** The request in a text frame. */
export function readMessage(text: string): ClientMessage {
  const isTooMuch = text.split(/[[{]/, MAX_PARTS + 2).length > MAX_PARTS + 1;
  const message = isTooMuch ? undefined : jsonIn(text);
  const fields = isObject(message) ? message : {};
  const { action: given, subscription_id: id = '', topic, arguments: args = {} } = fields;
  const action = actions.find((known) => known === given);
  const faultIn = (): string | undefined => {
    if (isTooMuch) return `error reading message: it may have ${MAX_PARTS} objects and lists`;
    if (message === undefined) return 'error reading message: it is not JSON';
    if (!isObject(message)) return 'error parsing message: it is not a JSON object';
    if (action === undefined)
      return `error parsing message: unknown action type: ${typeof given === 'string' ? quoted(given) : 'none'}`;
    if (action === 'list_subscriptions') return undefined;
    if (typeof id !== 'string') return 'error parsing message: subscription_id must be a string';
    if (id.length > MAX_ID_LENGTH)
      return `error parsing subscription id: it has more than ${MAX_ID_LENGTH} characters`;
    if (action === 'unsubscribe')
      return id === '' ? 'error parsing subscription id: it is missing' : undefined;
    if (typeof topic !== 'string') return 'error parsing message: topic must be a string';
    return isObject(args) ? undefined : 'error parsing message: arguments must be an object';
  };
  const isNamed = (action === 'subscribe' || action === 'unsubscribe') && typeof id === 'string' && id !== '';
  return {
    action,
    id: isNamed ? id.slice(0, MAX_ID_LENGTH) : undefined,
    topic: typeof topic === 'string' ? topic : '',
    args: isObject(args) ? args : {},
    fault: faultIn(),
  };
}

/**
 * The subscription that a message of a node ends, and how: by an error, or by the last status of a transaction, after which nodes
 * drop it without another message. Data, which may be large, is not read; a quote within a string would be escaped.
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
  readonly payload: (event: HeightEvent, until: Following['until']) => unknown;
}

export const blockTopics: ReadonlyMap<string, BlockTopic> = new Map<string, BlockTopic>([
  ['blocks', { kind: 'ws_blocks', payload: blockPayload }],
  ['block_headers', { kind: 'ws_headers', payload: headerPayload }],
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

function blockPayload({ stored: { block }, isProven }: HeightEvent, until: Following['until']): unknown {
  return restBlock(block.encoded, { isExpanded: true, isProven, isSealed: until === 'sealed' });
}

function headerPayload({ stored: { block }, isProven }: HeightEvent): unknown {
  return { ...blockBody(block.encoded).header, proven: isProven };
}

function digestPayload({ stored: { block }, isProven }: HeightEvent): unknown {
  const timestamp = rfc3339(timeOfBlock(block.encoded));
  return { block_id: block.id, height: String(block.height), timestamp, proven: isProven };
}
