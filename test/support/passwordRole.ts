import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';
import { asAdmin } from './postgresServer.js';
import { scratchDirectory } from './program.js';

/**
 * Makes a superuser who signs in with a password, until the end of the test, at the server of `url`, which must be one of
 * ours: somebody else's keeps its rules. `url`: with the user and without the password, which `passwordFile` holds, for
 * PGPASSFILE; `hold` puts another one there.
 */
export async function passwordRole(url: string, name: string, password: string) {
  const { rows } = await asAdmin(url, 'SHOW hba_file');
  const { hba_file: rules } = rows[0] as { hba_file: string };
  const before = readFileSync(rules, 'utf8');
  const write = async (text: string): Promise<void> => {
    writeFileSync(rules, text);
    await asAdmin(url, 'SELECT pg_reload_conf()');
  };
  await asAdmin(url, `CREATE ROLE ${name} LOGIN PASSWORD '${password}' SUPERUSER`);
  atEnd(() => write(before));
  await write(`host all ${name} 127.0.0.1/32 scram-sha-256\n${before}`);
  const { host, hostname, port, pathname } = new URL(url);
  const passwordFile = join(scratchDirectory(), 'passwords');
  const hold = (held: string): void =>
    writeFileSync(passwordFile, `${hostname}:${port}:*:${name}:${held}\n`, { mode: 0o600 });
  hold(password);
  return { url: `postgres://${name}@${host}${pathname}`, passwordFile, hold };
}
