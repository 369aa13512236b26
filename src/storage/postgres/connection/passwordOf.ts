import pg from 'pg';
import pgpass from 'pgpass';

/** Who asks to be let in where. */
export interface Connection {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  /** Default: as PostgreSQL's own tools have it. */
  readonly user: string | undefined;
}

/** The password of PGPASSWORD, else that of the file that PGPASSFILE names, or of its usual place; `undefined`: there is none. */
export function passwordOf({ user, ...where }: Connection): Promise<string | undefined> {
  const given = process.env['PGPASSWORD'];
  if (given !== undefined && given !== '') return Promise.resolve(given);
  const name = user ?? process.env['PGUSER'] ?? pg.defaults.user ?? '';
  // The file is read when the server asks for a password, so one that changes is taken with the next connection.
  return new Promise((resolve) => pgpass({ ...where, user: name }, resolve));
}
