import type pg from 'pg';

const DATA = 'd'.charCodeAt(0);
const DONE = 'c'.charCodeAt(0);
/** Each message: its kind, then its length, which counts itself. */
const KIND_BYTES = 1;
const LENGTH_BYTES = 4;
const FRAME_BYTES = KIND_BYTES + LENGTH_BYTES;

/** What `pg` calls of a statement that is not its own, in as far as COPY comes by. */
abstract class Copy implements pg.Submittable {
  readonly ended: Promise<void>;
  #resolve = (): void => undefined;
  #reject = (_error: Error): void => undefined;

  constructor() {
    this.ended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  abstract submit(connection: pg.Connection): void;

  handleCopyInResponse(): void {
    // The rows have left already.
  }

  handleCommandComplete(): void {
    // As is said by the end.
  }

  handleReadyForQuery(): void {
    this.#resolve();
  }

  handleError(error: Error): void {
    this.#reject(error);
  }
}

class CopyIn extends Copy {
  readonly #statement: string;
  readonly #rows: Buffer;

  constructor(statement: string, rows: Buffer) {
    super();
    this.#statement = statement;
    this.#rows = rows;
  }

  /** Statement and rows leave together: the server reads them in this order, and no round trip is in between. */
  submit(connection: pg.Connection): void {
    connection.query(this.#statement);
    connection.stream.write(this.#rows);
  }
}

class CopyOut extends Copy {
  readonly chunks: Uint8Array[] = [];
  readonly #statement: string;

  constructor(statement: string) {
    super();
    this.#statement = statement;
  }

  submit(connection: pg.Connection): void {
    connection.query(this.#statement);
  }

  handleCopyData({ chunk }: { readonly chunk: Uint8Array }): void {
    this.chunks.push(Buffer.from(chunk));
  }
}

/** All that `COPY … TO STDOUT` gives, ready to be sent by `copyIn`: one message with the rows, and the one that ends them. */
export async function copyOut(client: pg.Client, statement: string): Promise<Buffer> {
  const copy = client.query(new CopyOut(statement));
  await copy.ended;
  const bytes = copy.chunks.reduce((sum, { length }) => sum + length, 0);
  const head = Buffer.from([DATA, 0, 0, 0, 0]);
  head.writeInt32BE(LENGTH_BYTES + bytes, KIND_BYTES);
  const end = Buffer.from([DONE, 0, 0, 0, LENGTH_BYTES]);
  return Buffer.concat([head, ...copy.chunks, end], FRAME_BYTES + bytes + FRAME_BYTES);
}

/** Runs `COPY … FROM STDIN` with rows of `copyOut`. */
export function copyIn(client: pg.Client, statement: string, rows: Buffer): Promise<void> {
  return client.query(new CopyIn(statement, rows)).ended;
}
