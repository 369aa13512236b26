import type { PoolClient, QueryResultRow } from 'pg';
import { Pipeline } from './Pipeline.js';
import { runStatement } from './runStatement.js';
import type { Rows, Statement, Step, WriteSession } from './Session.js';

interface Waiting {
  readonly step: Step;
  readonly check: ((rowCount: number) => void) | undefined;
}

/** A transaction on a connection, which begins with the first statement sent. Errors are the server's own. */
export class Transaction implements WriteSession {
  readonly #client: PoolClient;
  #waiting: Waiting[];

  constructor(client: PoolClient, begin: Step) {
    this.#client = client;
    this.#waiting = [{ step: begin, check: undefined }];
  }

  later(step: Step, check?: (rowCount: number) => void): void {
    this.#waiting.push({ step, check });
  }

  async query<Row extends QueryResultRow>(statement: Statement): Promise<Rows<Row>> {
    await this.#send();
    return runStatement<Row>(this.#client, statement);
  }

  async commit(): Promise<void> {
    await this.#send();
    await this.#client.query('COMMIT');
  }

  async #send(): Promise<void> {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    const { outcome } = this.#client.query(new Pipeline(waiting.map(({ step }) => step)));
    const { rowCounts, error } = await outcome;
    for (const [index, rowCount] of rowCounts.entries()) waiting[index]?.check?.(rowCount);
    if (error !== undefined) throw error;
  }
}
