import { join } from 'node:path';
import { readSporkTable, type SporkTable } from '../../access/index.js';
import { readHeightsToFill, type DaemonConfig } from '../../config/index.js';
import { NAMED_BY, type NamedBlock } from '../../finality/index.js';
import { parseIdentifier, type FinalizedBlock, type Identifier } from '../../flow/index.js';
import { OperatorError, packageRoot, type ExitReason } from '../../runtime/index.js';
import { unlessDamaged } from '../../storage/index.js';
import type { RangeStore } from '../../storage/index.js';

/** The blocks whose ids the configuration knows, best first. */
export function namedBlocks(checkpoint: string | undefined, sporks: SporkTable): NamedBlock[] {
  const named = (kind: NamedBlock['kind'], height: number, id: Identifier | undefined): NamedBlock[] =>
    id === undefined ? [] : [{ kind, height, id }];
  const [height = '', id = ''] = checkpoint?.split(':') ?? [];
  return [
    ...named('checkpoint', Number(height), parseIdentifier(id)),
    ...sporks.flatMap(({ rootHeight, rootId }) => named('spork_root', rootHeight, rootId)),
    ...sporks.flatMap(({ rootHeight, rootParentId, rootParentIsBelow = true }) =>
      rootParentIsBelow ? named('spork_table', rootHeight - 1, rootParentId) : [],
    ),
  ];
}

/** A stored block; `undefined` also for a damaged one, which is healed (`heal`). Expected errors: `StorageError`. */
export async function soundBlock(
  store: Pick<RangeStore, 'blockByHeight'>,
  height: number,
): Promise<FinalizedBlock | undefined> {
  return (await unlessDamaged(() => store.blockByHeight(height)))?.block;
}

/** The sporks of a network, from the config/sporks.json that comes with the program. */
export function readShippedSporks(network: string): Promise<SporkTable> {
  return readSporkTable(join(packageRoot, 'config', 'sporks.json'), network);
}

/** The same for a daemon. Expected errors: OperatorError `configuration` if its history begins at no spork of the table. */
export async function sporksOf({ backfill, network }: DaemonConfig): Promise<SporkTable> {
  const sporks = await readShippedSporks(network);
  const { from } = readHeightsToFill(backfill.plan ?? '') ?? {};
  if (typeof from === 'object') rootOf(from.spork, sporks, 'configuration');
  return sporks;
}

/** The root height of a spork of the table. Expected errors: OperatorError `exit`, which names those that are there. */
export function rootOf(spork: string, sporks: SporkTable, exit: ExitReason): number {
  const found = sporks.find(({ name }) => name === spork);
  if (found !== undefined) return found.rootHeight;
  const names = sporks.map(({ name }) => name).join(', ');
  const has = names === '' ? '' : `, which has ${names}`;
  throw new OperatorError(exit, `There is no spork ${spork} in config/sporks.json for this network${has}.`);
}

/** Contradictions between what the configuration knows of the chain and a stored block, which may be of another chain. */
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
