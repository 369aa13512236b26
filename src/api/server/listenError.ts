import { messageOf, OperatorError } from '../../runtime/index.js';

/** True for an address that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** Why a server cannot listen, with the flag that fixes it. Unexpected errors are returned as they are. */
export function listenError(
  error: unknown,
  where: {
    readonly host: string;
    readonly port: number;
    readonly hostFlag: string;
    readonly portFlag: string;
  },
): unknown {
  const { host, port, hostFlag, portFlag } = where;
  const refuse = (message: string): OperatorError =>
    new OperatorError('configuration', message, { cause: error });
  switch (error instanceof Error && 'code' in error ? error.code : undefined) {
    case 'EADDRINUSE':
      return refuse(
        `Port ${port} on ${host} is in use, perhaps by another daemon. Choose another one with ${portFlag}, or stop the program that uses it.`,
      );
    case 'EACCES':
      return refuse(
        `This user may not listen on port ${port} of ${host}. Choose a port from 1024 on with ${portFlag}.`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return refuse(
        `This machine has no address ${host} to listen on (${messageOf(error)}). Choose another one with ${hostFlag}.`,
      );
    default:
      return error;
  }
}
