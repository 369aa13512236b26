import type { ServerOptions } from 'node:http';
import { createServer } from 'node:https';
import type { FastifyServerFactory } from 'fastify';
import { tlsOptions } from '../guard/tls.js';
import type { TlsIdentity } from '../guard/tls.js';

/** Makes the server that Fastify uses in place of its own where it is to speak TLS. */
export function tlsServer(
  identity: TlsIdentity,
  limits: ServerOptions & { readonly connectionTimeoutMs: number },
): FastifyServerFactory {
  return (handler) => {
    const server = createServer({ ...limits, ...tlsOptions(identity) }, handler);
    server.setTimeout(limits.connectionTimeoutMs);
    return server;
  };
}
