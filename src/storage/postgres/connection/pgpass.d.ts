declare module 'pgpass' {
  /** Looks for the password of a connection in the password file; `undefined` where there is none. */
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
