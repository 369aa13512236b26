import type { SporkTable } from '../../access/index.js';
import type { NamedBlock } from '../../finality/index.js';
import { parseIdentifier } from '../../flow/index.js';

/** The blocks whose ids the configuration knows, best first. */
export function namedBlocks(checkpoint: string | undefined, sporks: SporkTable): NamedBlock[] {
  const named = (kind: NamedBlock['kind'], height: number, text: string | undefined): NamedBlock[] => {
    const id = text === undefined ? undefined : parseIdentifier(text);
    return id === undefined ? [] : [{ kind, height, id }];
  };
  const [height = '', id = ''] = checkpoint?.split(':') ?? [];
  return [
    ...named('checkpoint', Number(height), id),
    ...sporks.flatMap(({ rootHeight, rootId }) => named('spork_root', rootHeight, rootId)),
    ...sporks.flatMap(({ rootHeight, rootParentId, rootParentIsBelow = true }) =>
      rootParentIsBelow ? named('spork_table', rootHeight - 1, rootParentId) : [],
    ),
  ];
}
