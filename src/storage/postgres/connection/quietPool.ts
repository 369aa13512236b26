import pg from 'pg';
import type { Pool } from 'pg';

/** How long closing the connections may take. */
const END_TIMEOUT_MS = 2_000;

/** The next use of a broken connection gets its error; an `error` event without a listener would end the process. */
export function quietPool(config: pg.PoolConfig): Pool {
  const pool = new pg.Pool({ ...config, allowExitOnIdle: true });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/** Also resolves when the database does not answer. */
export function endPool(pool: Pool): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, END_TIMEOUT_MS);
    pool.end().then(
      () => {
        clearTimeout(timer);
        resolve();
      },
      () => resolve(),
    );
  });
}
