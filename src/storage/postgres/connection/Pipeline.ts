import type { Connection, Submittable } from 'pg';
import type { Step } from './Session.js';

export interface PipelineOutcome {
  /** Of the steps that were done, in their order. */
  readonly rowCounts: readonly number[];
  /** Of the first step that failed: none behind it was done. */
  readonly error: Error | undefined;
}

/** What `pg` knows of the statements of a connection, its own and these. */
interface Prepared {
  readonly parsedStatements: Record<string, string>;
}

/** Steps that go out together, as one statement to `pg`. Rows of a COPY are sent as they are, not copied before. */
export class Pipeline implements Submittable {
  /** `pg` puts here what stops the clock of the statement. */
  callback: (() => void) | undefined;
  readonly outcome: Promise<PipelineOutcome>;
  readonly #steps: readonly Step[];
  readonly #rowCounts: number[] = [];
  #resolve = (_outcome: PipelineOutcome): void => undefined;

  constructor(steps: readonly Step[]) {
    this.#steps = steps;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    stream.cork();
    for (const step of this.#steps) send(connection as Connection & Prepared, step);
    // The only one: whatever fails, the server passes over all that is left.
    connection.sync();
    stream.uncork();
  }

  handleCopyInResponse(): void {
    // The rows are on their way.
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#rowCounts.push(Number(/\d+$/.exec(text)?.[0] ?? 0));
  }

  handleReadyForQuery(): void {
    this.#end(undefined);
  }

  handleError(error: Error): void {
    this.#end(error);
  }

  #end(error: Error | undefined): void {
    this.callback?.();
    this.#resolve({ rowCounts: this.#rowCounts, error });
  }
}

function send(connection: Connection & Prepared, { name, text, values = [], copied }: Step): void {
  if (connection.parsedStatements[name] === undefined) {
    connection.parse({ name, text, types: [] }, true);
    connection.parsedStatements[name] = text;
  }
  connection.bind({ statement: name, values: values.map(String) }, true);
  connection.execute(null, true);
  if (copied !== undefined) connection.stream.write(copied);
}
