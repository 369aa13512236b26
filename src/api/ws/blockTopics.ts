import { decodeBlock } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import { invalidArgument as invalid } from '../view/ApiError.js';
import { heightEventOf } from '../feed/following.js';
import type { FeedEvent, Following, StartPoint } from '../feed/following.js';
import { parseBlockKey, parseHeight } from '../view/queryParameters.js';
import { restBlock } from '../json/block.js';
import { rfc3339 } from '../json/scalars.js';
import type { Arguments } from './messages.js';

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
export function parseBlockArguments(args: Arguments): {
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
  if (parsed === undefined) throw invalid("'start_block_height' must be a decimal height");
  return { height: parsed };
}

function textOf(args: Arguments, name: string): string | undefined {
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
