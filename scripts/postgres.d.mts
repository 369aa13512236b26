export interface OwnPostgresOptions {
  /** Holds the data; removed by `close`. The server's user must have access to it. */
  readonly directory: string;
  readonly port: number;
  /** Settings of postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>;
}
export class OwnPostgres {
  /** Over the cluster that is in `directory` already. `user`: whom the server runs as; its directory is theirs. */
  constructor(
    binaries: { readonly directory: string; readonly user: { readonly uid?: number; readonly gid?: number } },
    options: OwnPostgresOptions,
  );
  static begin(options: OwnPostgresOptions): Promise<OwnPostgres>;
  /** URL of the database `postgres`. */
  readonly url: string;
  readonly pid: number | undefined;
  start(): Promise<void>;
  kill(): Promise<void>;
  close(): Promise<void>;
}
