import type { BlockEntry, CommitteeEvidence } from '../../src/storage/index.js';

/** Evidence as a store keeps it of a block: it reads none of it. */
export function evidenceOf({ block }: Pick<BlockEntry, 'block'>, isAnchor = false): CommitteeEvidence {
  const of = (name: string): Buffer => Buffer.from(`${name} of ${block.height}`);
  return {
    ...{ height: block.height, id: block.id, isAnchor },
    ...{ protocolState: of('state'), epochState: of('epochs'), events: [of('setup'), Buffer.alloc(300, 7)] },
  };
}
