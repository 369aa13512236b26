import { BlockList, isIP } from 'node:net';
import { maskedEndpoint } from '../../../runtime/index.js';
import type { Endpoint } from '../endpoint.js';

/** The variables that the gRPC library takes a proxy from; the first one set counts. It reads none in capitals. */
const VARIABLES = ['grpc_proxy', 'https_proxy', 'http_proxy'] as const;
const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|::1)$/;

type Proxy = Readonly<NonNullable<ReturnType<typeof proxyFor>>>;

/**
 * The proxy of the environment for a node. `undefined`: none is set, or `no_proxy` names the node in any of the usual
 * forms (`*`, a name, the end of a name, an address, a network, with or without a port), or the node is on this machine:
 * a proxy that is meant for the outside cannot reach it.
 */
export function proxyFor({ host, port }: Endpoint, environment: NodeJS.ProcessEnv = process.env) {
  const variable = VARIABLES.find((name) => (environment[name] ?? '') !== '');
  if (variable === undefined || LOOPBACK.test(host)) return undefined;
  const excepted = environment['no_grpc_proxy'] || environment['no_proxy'] || environment['NO_PROXY'] || '';
  if (excepted.split(/[\s,]+/).some((entry) => names(entry.toLowerCase(), host, port))) return undefined;
  const address = environment[variable] ?? '';
  return {
    variable,
    /** As the variable names it, without credentials. */
    address: maskedEndpoint(address),
    /** False for a proxy that the gRPC library cannot use: then the node is called directly. */
    isUsed: /^http:\/\//i.test(address),
  };
}

/** True when an entry of `no_proxy` names the host. */
function names(entry: string, host: string, port: number): boolean {
  if (entry === '*') return true;
  const place = entry.replace(new RegExp(`:${port}$`), '').replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) !== 0) return place === host || isInNetwork(place, host);
  const name = place.replace(/^\*?\./, '');
  return name !== '' && (host === name || host.endsWith(`.${name}`));
}

function isInNetwork(network: string, host: string): boolean {
  const [address = '', bits = ''] = network.split('/');
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (isIP(address) === 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 'ipv6' ? 128 : 32))
    return false;
  const list = new BlockList();
  list.addSubnet(address, Number(bits), family);
  return list.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4');
}

/** What the error of a failed call adds about the proxy. */
export function wordsOf({ address, isUsed, variable }: Proxy, { host }: Pick<Endpoint, 'host'>): string {
  return isUsed
    ? `it is reached through the proxy ${address} of ${variable}, which may be down or refuse (its answer is in the log of level debug); no_proxy=${host} goes around it`
    : `${variable} names ${address}, but only http:// proxies can be used, so it was called directly`;
}
