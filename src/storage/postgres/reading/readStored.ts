import type { HeightRange } from '../../port/stored.js';
import type { Session } from '../connection/Session.js';

/** The bytes of one height. */
export interface Stored {
  record: Buffer | undefined;
  readonly body: Map<number, Buffer>;
}

/** The stored bytes of some heights. Expected errors: those of the session. */
export async function readStored(session: Session, { from, to }: HeightRange): Promise<Map<number, Stored>> {
  const { rows } = await session.query<{ height: number; chunk: number; value: Buffer }>({
    text: `SELECT height, -1 AS chunk, record AS value FROM flow_store.block WHERE height BETWEEN $1 AND $2
      UNION ALL SELECT height, chunk, value FROM flow_store.body WHERE height BETWEEN $1 AND $2`,
    values: [from, to],
  });
  const stored = new Map<number, Stored>();
  for (const { height, chunk, value } of rows) {
    const values = stored.get(height) ?? { record: undefined, body: new Map<number, Buffer>() };
    stored.set(height, values);
    if (chunk < 0) values.record = value;
    else values.body.set(chunk, value);
  }
  return stored;
}
