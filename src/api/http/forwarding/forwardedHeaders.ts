import type { IncomingHttpHeaders } from 'node:http';
import type { NodeMetadata } from '../../../access/index.js';

/** These concern one connection only. */
const NOT_PASSED_ON: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te'],
  ...['trailer', 'transfer-encoding', 'upgrade', 'host', 'expect'],
]);
const VIA = '1.1 flow-collection-indexer';

/** The headers of a forwarded request or response that are passed on. */
export function passedOn(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = (headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  const kept = Object.entries(headers).filter(([name]) => !NOT_PASSED_ON.has(name) && !named.includes(name));
  return Object.fromEntries(kept);
}

/** The headers of a request to a node: those of the caller, except where the node wants its own. */
export function requestHeaders(headers: IncomingHttpHeaders, wanted: NodeMetadata): IncomingHttpHeaders {
  // Values that a node repeats are found in plain text only.
  const plain = Object.keys(wanted).length === 0 ? {} : { 'accept-encoding': 'identity' };
  return { ...passedOn(headers), ...plain, ...wanted, via: viaOf(headers) };
}

/** The `via` header, with this program appended. */
export function viaOf(headers: IncomingHttpHeaders): string {
  return headers.via === undefined ? VIA : `${headers.via}, ${VIA}`;
}
