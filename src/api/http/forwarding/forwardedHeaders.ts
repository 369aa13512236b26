import type { IncomingHttpHeaders } from 'node:http';

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

/** The `via` header, with this program appended. */
export function viaOf(headers: IncomingHttpHeaders): string {
  return headers.via === undefined ? VIA : `${headers.via}, ${VIA}`;
}
