import type { QueryResultRow } from 'pg';

export interface Statement {
  /** A statement with a name is prepared once per connection. */
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly unknown[];
  /** How many rows it writes: with any other number nothing is committed. */
  readonly writes?: number;
  /** What another number means. Default: a fault that is retried, as something drops its rows. */
  readonly otherwise?: () => Promise<Error | undefined>;
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
export interface Step extends Statement {
  readonly name: string;
  readonly values?: readonly (string | number)[];
  /** What follows a `COPY … FROM STDIN`. */
  readonly copied?: Buffer;
}

/** A transaction that writes. */
export interface WriteSession extends Session {
  /**
   * Queues a step, to be sent with all others in the queue at the next query or at the commit: the server runs them
   * without waiting for this process. A step's missing rows take precedence over errors of later steps.
   */
  later(step: Step): void;
}
