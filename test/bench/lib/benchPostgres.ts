import { asAdmin, ownServer } from '../../support/postgresServer.js';

/** A server of the bench's own, that writes through to the disk as one that is to be trusted does. */
export interface BenchPostgres {
  /** Of a new, empty database. */
  database(): Promise<string>;
  close(): Promise<void>;
}

export async function startBenchPostgres(): Promise<BenchPostgres> {
  const server = await ownServer({
    ...{ fsync: 'on', shared_buffers: '256MB', max_wal_size: '2GB', max_connections: '200' },
  });
  // It is in a group of its own, and would outlive a bench that fails.
  const end = (): void => {
    if (server.pid !== undefined) process.kill(server.pid, 'SIGQUIT');
  };
  process.on('exit', end);
  let made = 0;
  return {
    database: async () => {
      made += 1;
      const name = `bench_${made}`;
      await asAdmin(server.url, `CREATE DATABASE ${name}`);
      const url = new URL(server.url);
      url.pathname = `/${name}`;
      return url.href;
    },
    close: async () => {
      process.off('exit', end);
      await server.close();
    },
  };
}
