import pg from 'pg';
import pgpass from 'pgpass';

/** Who connects to which database. */
export interface Connection {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  /** Default: the user that PostgreSQL's own tools would use. */
  readonly user: string | undefined;
}

/** The password from PGPASSWORD, else from the password file (PGPASSFILE, or its usual place); `undefined`: none. */
export function passwordOf({ user, ...where }: Connection): Promise<string | undefined> {
  // A secret made from a file ends with its line end, and no password does.
  const given = process.env['PGPASSWORD']?.replace(/[\r\n]+$/, '') ?? '';
  if (given !== '') return Promise.resolve(given);
  const name = user ?? process.env['PGUSER'] ?? pg.defaults.user ?? '';
  // The file is read when the server asks for a password, so the next connection uses a changed one.
  return new Promise((resolve) => pgpass({ ...where, user: name }, resolve));
}
