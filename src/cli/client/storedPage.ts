import type { StoredLine } from '../../api/index.js';
import { decodeBlockMessage, WireError } from '../../flow/index.js';
import type { FinalizedBlock } from '../../flow/index.js';

/** An older daemon ignores the query parameter `form`. */
export const OLDER_DAEMON =
  'The daemon is an older version that cannot send stored blocks. Upgrade it first.';

/** A block as a daemon sent it; its bodies are not verified. */
export interface GivenBlock {
  readonly block: FinalizedBlock;
  /** Full collections, in guarantee order. */
  readonly bodies: readonly Buffer[];
}

/** Parses a daemon's answer to `/export` with `form=stored`; `undefined` when it is something else. */
export function storedPageOf(bytes: Buffer): readonly GivenBlock[] | undefined {
  try {
    return bytes.toString('utf8').trimEnd().split('\n').map(givenBlock);
  } catch (error) {
    if (error instanceof WireError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function givenBlock(text: string): GivenBlock {
  const line = JSON.parse(text) as StoredLine;
  if ((line.kind as string) !== 'stored') throw new SyntaxError('not a line of stored');
  return {
    block: decodeBlockMessage(Buffer.from(line.block, 'base64')),
    bodies: line.collections.map((each) => Buffer.from(each, 'base64')),
  };
}
