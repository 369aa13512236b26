import type { HeightRange, Session } from '../../storage/index.js';
import type { KillMode, WorkerState } from '../ports.js';
import type { ClaimKey } from './Claim.js';

/** A worker whose last beat is older than this counts as dead. */
const DEAD_AFTER_MS = 12_000;
/** The queue whose one job is held by the process that follows the head. */
export const LIVE_QUEUE = 'live';

/** What a worker holds: the job, and the heights if it is a range. */
export type Held = ClaimKey & Partial<HeightRange>;

interface Row {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly work_version: number;
  readonly roles: string;
  readonly state: WorkerState['state'];
  readonly busy: string;
  readonly started_at: Date;
  readonly beat: string;
  readonly age_ms: number;
  readonly kill: KillMode | null;
}

/** The workers of a store, for commands. Expected errors: `StorageError`. */
export async function readWorkers(session: Session): Promise<readonly WorkerState[]> {
  return (await readRows(session)).map(stateOf);
}

/** Tells workers to end. Returns how many have not stopped yet. Expected errors: `StorageError`. */
export async function killWorkers(session: Session, ids: readonly string[], mode: KillMode): Promise<number> {
  const { rowCount } = await session.query({
    text: `UPDATE flow_store.worker SET kill = $2 WHERE id = ANY ($1::uuid[]) AND state <> 'stopped'`,
    values: [ids, mode],
  });
  return rowCount;
}

export async function readRows(session: Session): Promise<readonly Row[]> {
  const { rows } = await session.query<Row>({
    text: `SELECT id, host, pid, version, work_version, roles, state, busy, started_at, beat,
        (extract(epoch FROM now() - beat_at) * 1000)::double precision AS age_ms, kill
      FROM flow_store.worker ORDER BY started_at, id`,
  });
  return rows;
}

export function heldOf({ busy }: Pick<Row, 'busy'>): readonly Held[] {
  return JSON.parse(busy) as Held[];
}

/** The jobs of workers that do not count as dead. */
export async function heldByLiving(session: Session): Promise<readonly Held[]> {
  return (await readRows(session)).filter((row) => row.age_ms < DEAD_AFTER_MS).flatMap(heldOf);
}

/** Empty for a job that is not a range. */
export function heightsOf({ from, to }: Held): readonly HeightRange[] {
  return from === undefined || to === undefined ? [] : [{ from, to }];
}

export function stateOf(row: Row): WorkerState {
  const held = heldOf(row);
  return {
    id: row.id,
    host: row.host,
    pid: row.pid,
    version: row.version,
    workVersion: row.work_version,
    roles: row.roles.split(','),
    state: row.state,
    startedAt: row.started_at,
    isAlive: row.state !== 'stopped' && row.age_ms < DEAD_AFTER_MS,
    busyWith: held.flatMap(heightsOf),
    leads: held.some(({ queue }) => queue === LIVE_QUEUE),
    beatAgeMs: Math.max(0, Math.round(row.age_ms)),
    kill: row.kill ?? undefined,
  };
}
