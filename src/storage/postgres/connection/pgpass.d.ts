declare module 'pgpass' {
  /** Looks up the password of a connection in the password file; `undefined` if there is none. */
  export default function pgpass(
    connection: {
      readonly host: string;
      readonly port: number;
      readonly database: string;
      readonly user: string;
    },
    callback: (password: string | undefined) => void,
  ): void;
}
