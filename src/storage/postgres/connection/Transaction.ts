import type { QueryResultRow } from 'pg';
import type { Link } from './Connections.js';
import type { Rows, Statement, Step, WriteSession } from './Session.js';

interface Waiting {
  readonly step: Step;
  readonly check: ((rowCount: number) => void) | undefined;
}

/** A transaction on a connection, which begins with the first statement sent. Errors are those of the connection. */
export class Transaction implements WriteSession {
  readonly #link: Link;
  #waiting: Waiting[];

  constructor(link: Link, begin: Step) {
    this.#link = link;
    this.#waiting = [{ step: begin, check: undefined }];
  }

  later(step: Step, check?: (rowCount: number) => void): void {
    this.#waiting.push({ step, check });
  }

  async query<Row extends QueryResultRow>(statement: Statement): Promise<Rows<Row>> {
    await this.#send();
    return this.#link.query<Row>(statement);
  }

  async commit(): Promise<void> {
    await this.#send();
    await this.#link.commit();
  }

  async #send(): Promise<void> {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    const { rowCounts, error } = await this.#link.send(waiting.map(({ step }) => step));
    for (const [index, rowCount] of rowCounts.entries()) waiting[index]?.check?.(rowCount);
    if (error !== undefined) throw error;
  }
}
