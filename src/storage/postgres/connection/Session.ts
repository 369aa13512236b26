import type { QueryResultRow } from 'pg';

export interface Statement {
  /** A statement with a name is prepared once per connection. */
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly unknown[];
  /** How many rows it writes: with any other number nothing is committed, and it is a fault that is waited for. */
  readonly writes?: number;
}

/** The answer to a statement. */
export interface Rows<Row> {
  readonly rows: Row[];
  readonly rowCount: number;
}

/** What queries run in: a connection, or a transaction on one. */
export interface Session {
  query<Row extends QueryResultRow>(statement: Statement): Promise<Rows<Row>>;
}

/** A statement that returns no rows. */
export interface Step {
  /** Prepared once per connection. */
  readonly name: string;
  readonly text: string;
  readonly values?: readonly (string | number)[];
  /** What follows a `COPY … FROM STDIN`, and how many rows of it the table must keep: all, or nothing is committed. */
  readonly copied?: { readonly messages: Buffer; readonly rows: number };
}

/** A transaction that writes. */
export interface WriteSession extends Session {
  /**
   * Queues a step, to be sent with all others in the queue at the next query or at the commit: the server runs them
   * without waiting for this process. `check` receives the number of affected rows, and may throw: its error takes
   * precedence over those of later steps.
   */
  later(step: Step, check?: (rowCount: number) => void): void;
}
