import type { QueryResultRow } from 'pg';

export interface Statement {
  /** Given: prepared once per connection. */
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Default: that of reads, or of writes. */
  readonly timeoutMs?: number;
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
  /** What follows a `COPY … FROM STDIN`: `CopyRows.messages`. */
  readonly copied?: Buffer;
}

/** A transaction that writes. */
export interface WriteSession extends Session {
  /**
   * Sends a step together with all that are waiting, at the next query or at the end: the server goes from one to the next
   * without a word from this process. `check` gets the number of rows that were touched, and may throw: what it throws counts
   * before any error of the steps behind it.
   */
  later(step: Step, check?: (rowCount: number) => void): void;
}
