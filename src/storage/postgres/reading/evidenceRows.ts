import type { Entry } from '../../records/Database.js';
import { evidenceKey } from '../../records/schema.js';
import type { Session } from '../connection/Session.js';
import { hasTable } from '../tables/prepareDatabase.js';

/** The evidence of a database, ascending, as LevelDB has it. A store of an earlier version, which is only read, has none. */
export async function readEvidence(session: Session): Promise<Entry[]> {
  if (!(await hasTable(session, 'evidence'))) return [];
  const { rows } = await session.query<{ height: number; record: Buffer }>({
    text: 'SELECT height, record FROM flow_store.evidence ORDER BY height',
  });
  return rows.map(({ height, record }) => [evidenceKey(height), record]);
}
