import { RangeLostError, StorageError } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, WriteSession } from '../connection/Session.js';

export type Fence = Awaited<ReturnType<typeof takeFence>>;

/** What the row of an open range, or of the store, counts: its writers (`epoch`), and their writes (`commits`). */
interface Counts {
  readonly epoch: number;
  readonly commits: number;
}

/**
 * The right to write an open range, by its first height, or the live one: replaces the previous writer. Every write increments
 * the counts of its row, in the same transaction. So a writer that was replaced can write nothing, and one whose connection
 * broke during a commit finds out whether it was committed. Expected errors: `StorageError`.
 */
export async function takeFence(database: PostgresDatabase, taking: Session, first?: number) {
  const table = first === undefined ? 'flow_store.store' : 'flow_store.open_range';
  const where = first === undefined ? 'one = $1' : 'from_height = $1';
  const values = [first ?? 1];
  const replaced = (): StorageError => {
    const what = `Another process writes this part of the store at ${database.place} now: this one has been replaced and has written nothing since.`;
    return first === undefined ? new StorageError('locked', what) : new RangeLostError(database.place);
  };
  const counted = async (session: Session, text: string, more = {}): Promise<Counts | undefined> =>
    (await session.query<Counts>({ text, values, ...more })).rows[0];
  const look = `SELECT epoch, commits FROM ${table} WHERE ${where}`;
  /** If the row is as it was, a trigger or rule drops the change. */
  const unlessDropped = (session: Session, isAsBefore: (now: Counts) => boolean) => async () => {
    const now = await counted(session, look);
    return now !== undefined && isAsBefore(now) ? undefined : replaced();
  };

  const take = `UPDATE ${table} SET epoch = epoch + 1 WHERE ${where} RETURNING epoch, commits`;
  const taken = await counted(taking, take, { writes: 1, otherwise: unlessDropped(taking, () => true) });
  if (taken === undefined) throw replaced();
  const { epoch } = taken;
  let { commits } = taken;
  return {
    /** The number of this writer: only the one with the highest number may write. */
    epoch,
    /**
     * One write: atomic, and durable on return. Retried while the database is unreachable, so `work` may run more than once;
     * it is committed once. `isGone`: for work that ends by removing the row; true when it has removed it. Expected errors:
     * `StorageError` (`locked`: there is another writer), which is a `RangeLostError` for a range; those of `work`.
     */
    write: async <T>(
      work: (session: WriteSession) => Promise<T>,
      isGone: (session: Session) => Promise<boolean> = () => Promise.resolve(false),
    ): Promise<T> => {
      let attempted: { readonly result: T } | undefined;
      // It waits for the previous attempt, which may still be under way in the server.
      const isCommitted = async (session: Session): Promise<boolean> => {
        const now = await counted(session, `${look} FOR UPDATE`);
        return now === undefined ? isGone(session) : now.epoch === epoch && now.commits === commits + 1;
      };
      const how = first === undefined ? 'write' : 'writeAside';
      const result = await database[how](async (session) => {
        if (attempted !== undefined && (await isCommitted(session))) return attempted.result;
        session.later({
          name: `fence_${table}`,
          text: `UPDATE ${table} SET commits = commits + 1 WHERE ${where} AND epoch = $2 AND commits = $3`,
          values: [...values, epoch, commits],
          writes: 1,
          otherwise: unlessDropped(database, (now) => now.epoch === epoch && now.commits === commits),
        });
        attempted = { result: await work(session) };
        return attempted.result;
      });
      commits += 1;
      return result;
    },
  };
}
