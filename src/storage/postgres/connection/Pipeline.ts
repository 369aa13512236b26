import type { Connection, Submittable } from 'pg';
import type { Step } from './Session.js';

/** The statements that `pg` has prepared on a connection, these included. */
interface Prepared {
  readonly parsedStatements: Record<string, string>;
}

/** Steps that are sent together, as one statement to `pg`. Rows of a COPY are sent without copying them. */
export class Pipeline implements Submittable {
  /** Of the steps that succeeded, in order. */
  readonly rowCounts: number[] = [];
  readonly #steps: readonly Step[];
  readonly #onEnd: (error?: Error) => void;

  /** `onEnd` gets the error of the first step that failed; the server skips all later steps. */
  constructor(steps: readonly Step[], onEnd: (error?: Error) => void) {
    this.#steps = steps;
    this.#onEnd = onEnd;
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    stream.cork();
    for (const step of this.#steps) send(connection as Connection & Prepared, step);
    // A single sync: after an error the server skips all remaining steps.
    connection.sync();
    stream.uncork();
  }

  handleCopyInResponse(): void {
    // The rows have been sent already.
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.rowCounts.push(Number(/\d+$/.exec(text)?.[0] ?? 0));
  }

  handleReadyForQuery(): void {
    this.#onEnd();
  }

  handleError(error: Error): void {
    this.#onEnd(error);
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
