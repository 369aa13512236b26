export interface OwnPostgresOptions {
  /** For its data; removed by `close`. The server's user must be able to reach it. */
  readonly directory: string;
  readonly port: number;
  /** Of postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>;
}
export class OwnPostgres {
  private constructor();
  static begin(options: OwnPostgresOptions): Promise<OwnPostgres>;
  /** Of the database `postgres`. */
  readonly url: string;
  readonly pid: number | undefined;
  start(): Promise<void>;
  kill(): Promise<void>;
  close(): Promise<void>;
}
