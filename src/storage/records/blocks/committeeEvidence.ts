import { decodeRlp, encodeRlp, identifierBytes, toIdentifier, WireError } from '../../../flow/index.js';
import type { RlpTree } from '../../../flow/index.js';
import type { CommitteeEvidence } from '../../port/stored.js';
import { unlessDamaged } from '../../StorageError.js';
import { openKeyOf, openValue, seal } from '../coding/seal.js';
import type { Database, Entry } from '../Database.js';
import { heightKey, parseHeightKey, Prefix, prefixRange } from '../schema.js';

const RECORD = 'evidence of a committee';

/** The entry of LevelDB; PostgreSQL has the value. */
export function sealEvidence(evidence: CommitteeEvidence): Entry {
  const { height, id, isAnchor, protocolState, epochState, events } = evidence;
  const key = heightKey(Prefix.evidence, height);
  return [key, seal(key, encodeRlp([identifierBytes(id), isAnchor, protocolState, epochState, ...events]))];
}

/** Expected errors: `StorageError` (`corrupt`). */
export function openEvidence([key, value]: Entry): CommitteeEvidence {
  const height = openKeyOf(RECORD, key, (each) => parseHeightKey(Prefix.evidence, each));
  return openValue({ what: RECORD, height }, key, value, (payload) => {
    const [id, isAnchor, protocolState, epochState, ...events] = fieldsOf(payload);
    if (id === undefined || isAnchor === undefined || protocolState === undefined) return undefined;
    if (epochState === undefined) return undefined;
    return { height, id: toIdentifier(id), isAnchor: isAnchor.length > 0, protocolState, epochState, events };
  });
}

/** The evidence of a LevelDB, ascending. */
export async function readEvidence(database: Pick<Database, 'pages'>): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const page of database.pages(prefixRange(Prefix.evidence))) entries.push(...page);
  return entries;
}

/** True for an entry that cannot be read. */
export async function isDamagedEvidence(entry: Entry): Promise<boolean> {
  return (await unlessDamaged(() => openEvidence(entry))) === undefined;
}

/** A list of bytes; empty where it is none. */
function fieldsOf(payload: Buffer): readonly Buffer[] {
  try {
    const tree: RlpTree = decodeRlp(payload);
    return tree instanceof Uint8Array ? [] : tree.flatMap((item) => (item instanceof Buffer ? [item] : []));
  } catch (error) {
    if (error instanceof WireError) return [];
    throw error;
  }
}
