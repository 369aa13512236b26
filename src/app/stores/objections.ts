import type { DaemonConfig } from '../../config/index.js';
import { NAMED_BY } from '../../finality/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { readShippedSporks } from '../lifecycle/readShippedSporks.js';
import { namedBlocks } from '../line/knownBlocks.js';

/** What the configuration knows of the chain, against a stored block that may be of another one. */
export async function objectionsOf(
  { network, proof }: Pick<DaemonConfig, 'network' | 'proof'>,
  { mustBeProven = false }: { readonly mustBeProven?: boolean } = {},
) {
  const sporks = await readShippedSporks(network);
  const ids = new Map(namedBlocks(proof.checkpoint, sporks).map((block) => [block.height, block]));
  return ({ height, id, proof: stored }: FinalizedBlock): string | undefined => {
    const named = ids.get(height);
    if (named !== undefined && named.id !== id)
      return `its id is ${id}, but ${NAMED_BY[named.kind]} names ${named.id}`;
    return stored === undefined && mustBeProven
      ? 'nothing in it proves its id, and proof.mode is required'
      : undefined;
  };
}
