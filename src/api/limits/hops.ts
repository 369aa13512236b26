import { ApiError } from '../view/ApiError.js';

/** Headers and metadata that concern one connection. Node.js refuses to send most of them over HTTP/2, but takes `http2-settings`. */
export const OF_ONE_CONNECTION: readonly string[] = [
  ...['connection', 'http2-settings', 'keep-alive', 'proxy-authenticate', 'proxy-authorization'],
  ...['proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'host'],
  ...['sec-websocket-extensions', 'sec-websocket-key', 'sec-websocket-protocol', 'sec-websocket-version'],
];

/** The name of this program in `via`. */
export const PROGRAM = 'flow-collection-indexer';
/** How often indexers may forward one request to each other. */
const MAX_HOPS = 4;

/** The refusal of a request that circles between indexers, before it takes every slot; `undefined` for any other. */
export function circleRefusal(via = ''): ApiError | undefined {
  if (via.split(PROGRAM).length <= MAX_HOPS) return undefined;
  const message = `this request was forwarded ${MAX_HOPS} times and came back: what it is forwarded to (api.forwardRest, accessNodes) leads to this program again; name an access node there`;
  return new ApiError(503, 'upstream_unreachable', message);
}
