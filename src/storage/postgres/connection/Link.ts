import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { PoolClient, QueryResult, QueryResultRow } from 'pg';
import type { ConnectionsOptions } from './Connections.js';
import { faultOf } from './faultOf.js';
import { Pipeline } from './Pipeline.js';
import { QuietClient } from './QuietClient.js';
import type { Rows, Statement, Step, WriteSession } from './Session.js';
import { setUp, WHOSE } from './sessionSettings.js';
import { Silence } from './Silence.js';

interface Waiting {
  readonly step: Step;
  readonly check: ((rowCount: number) => void) | undefined;
}

/** A connection in use. Errors: see `Connections.use`. */
export class Link implements WriteSession {
  readonly #client: PoolClient;
  readonly #options: ConnectionsOptions;
  readonly #mark = randomUUID();
  #pid: number | undefined;
  #silence: Silence | undefined;
  #waiting: Waiting[] = [];

  constructor(client: PoolClient, options: ConnectionsOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** What keeps an answer from coming; see `Silence`. */
  get silence(): string | undefined {
    return this.#silence?.words;
  }

  /** Makes its session what our statements need. */
  async begin(): Promise<void> {
    const text = setUp(this.#options.settings, this.#mark);
    const result: unknown = await this.#asked('a new connection', () => this.#client.query(text));
    this.#pid = (result as QueryResult<{ pid: number }>[])[2]?.rows[0]?.pid;
  }

  /** False: a pooler has given the session to another of its clients. */
  async hasItsSession(): Promise<boolean> {
    const { rows } = await this.query<{ pid: number; mark: string | null }>({ text: WHOSE });
    return rows[0]?.pid === this.#pid && rows[0]?.mark === this.#mark;
  }

  later(step: Step, check?: (rowCount: number) => void): void {
    this.#waiting.push({ step, check });
  }

  async query<Row extends QueryResultRow>({ name, text, values }: Statement): Promise<Rows<Row>> {
    await this.#send();
    const statement = { ...(name === undefined ? {} : { name }), text, values: [...(values ?? [])] };
    const { rows, rowCount } = await this.#asked(text, () => this.#client.query<Row>(statement));
    return { rows, rowCount: rowCount ?? 0 };
  }

  /** Several statements in one text are sent as they are. */
  run(text: string, values?: unknown[]): Promise<QueryResult> {
    return this.#asked(text, () => this.#client.query({ text, ...(values && { values }) }));
  }

  async commit(): Promise<void> {
    await this.#send();
    await this.#asked('COMMIT', async () => {
      const { command } = await this.#client.query('COMMIT');
      // What it answers where a statement of the transaction has failed.
      if (command !== 'COMMIT') throw new Error(`it has answered ${command} to COMMIT`);
    });
  }

  /** Sends the queue. What a check finds takes precedence over an error of a later step. */
  async #send(): Promise<void> {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    const steps = waiting.map(({ step }) => step);
    let rowCounts: readonly number[] = [];
    const sent = new Promise<void>((resolve, reject) => {
      const onEnd = (error?: Error): void => (error === undefined ? resolve() : reject(error));
      ({ rowCounts } = this.#client.query(new Pipeline(steps, onEnd)));
    });
    const outcome = this.#asked(`a batch of ${steps.length} statements`, () => sent);
    await outcome.catch(() => undefined);
    for (const [index, rowCount] of rowCounts.entries()) waiting[index]?.check?.(rowCount);
    await outcome;
    if (rowCounts.length < steps.length)
      throw this.#fault(new Error(`it has answered ${rowCounts.length} of ${steps.length} statements`));
  }

  async #asked<T>(text: string, ask: () => Promise<T>): Promise<T> {
    const { config, onSilent } = this.#options;
    const client = this.#client;
    const quiet = client instanceof QuietClient ? client : undefined;
    const silence = new Silence({
      ...{ text, config, pid: this.#pid, received: () => quiet?.received ?? 0 },
      onSilent: () => {
        onSilent();
        void client.end();
      },
    });
    this.#silence = silence;
    try {
      const answer = await ask();
      // An answer that has ended without saying what was done is none.
      if (isEmpty(answer)) throw new Error('it has ended its answer without one');
      return answer;
    } catch (error) {
      const isSaid = error instanceof pg.DatabaseError;
      throw this.#fault(silence.end() ?? (isSaid ? error : (quiet?.lastFault ?? error)));
    } finally {
      silence.end();
      this.#silence = undefined;
    }
  }

  #fault(error: unknown): unknown {
    return faultOf(error, this.#options.doing, this.#options.place);
  }
}

function isEmpty(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'command' in answer && answer.command === null;
}
