import type { StoredLine, StoredSporks } from '../../api/index.js';
import { decodeBlockMessage, parseIdentifier, WireError } from '../../flow/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import type { SporkRecord } from '../../storage/index.js';

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
export function storedPageOf(
  bytes: Buffer,
): { readonly sporks: readonly SporkRecord[]; readonly blocks: readonly GivenBlock[] } | undefined {
  try {
    const [first = '', ...lines] = bytes.toString('utf8').trimEnd().split('\n');
    return { sporks: sporksOf(first), blocks: lines.map(givenBlock) };
  } catch (error) {
    if (error instanceof WireError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function givenBlock(line: string): GivenBlock {
  const { block, collections } = parsed<StoredLine>(line, 'stored');
  return {
    block: decodeBlockMessage(Buffer.from(block, 'base64')),
    bodies: collections.map((each) => Buffer.from(each, 'base64')),
  };
}

function sporksOf(line: string): SporkRecord[] {
  return parsed<StoredSporks>(line, 'sporks').sporks.map(({ root_height, spork_id, root_parent_id }) => {
    const rootParentId = root_parent_id === null ? undefined : parseIdentifier(root_parent_id);
    return {
      ...{ rootHeight: root_height, sporkId: spork_id },
      ...(rootParentId === undefined ? {} : { rootParentId }),
    };
  });
}

function parsed<Line extends { readonly kind: string }>(text: string, kind: Line['kind']): Line {
  const line = JSON.parse(text) as Line;
  if (line.kind !== kind) throw new SyntaxError(`not a line of ${kind}`);
  return line;
}
