import { status, type StatusObject } from '@grpc/grpc-js';
import { sentence } from '../../runtime/index.js';
import { UpstreamError, type UpstreamErrorKind } from '../UpstreamError.js';
import type { AccessMethod } from '../types.js';

export type CallStatus = Readonly<Pick<StatusObject, 'code' | 'details'>>;

/** A root height that a node named in a refusal. */
interface NamedRoot {
  readonly height: number;
  /**
   * `spork`: the root of its spork. `node`: the first height of this node, in the middle of a spork. `stream`: the first
   * height of its stream; the node's other calls may go further back. Old texts do not say which.
   */
  readonly of: 'spork' | 'node' | 'stream' | undefined;
}

/** `of` is empty in the refusal of a stream that was requested from too low a height. */
const BELOW_ROOT = [
  /start height \d+ is lower than (?:the )?lowest indexed (?<of>)height (?<height>\d+)/i,
  /less than the (?<of>spork|node)(?:'s)? root block height (?<height>\d+)/i,
  /greater than or equal to the (?:(?<of>spork|node)(?:'s)? )?root (?:block )?height (?<height>\d+)/i,
];

/** The root height in the text of a refusal, or `undefined` when it names none. */
export function namedRoot(details: string): NamedRoot | undefined {
  const found = BELOW_ROOT.map((pattern) => pattern.exec(details)?.groups);
  const named = found.find((groups) => groups !== undefined);
  const height = Number(named?.['height']);
  if (!Number.isSafeInteger(height)) return undefined;
  const of = named?.['of']?.toLowerCase();
  return { height, of: of === '' ? 'stream' : of === 'spork' || of === 'node' ? of : undefined };
}

/** Texts of a size limit, which shares its status code with rate limits: grpc-js, its decompression, grpc-go. */
const TOO_LARGE = /message larger than max|decompresses to a size larger/i;
/** The node knows the block but has not fetched this collection yet. */
const NOT_YET = /please retry for collection/i;
/** A compressed message that cannot be decompressed is malformed. */
const UNPACKABLE = /failed to decompress|unsupported compression/i;

/** The text of grpc-js for a connection or call that is ended with INADEQUATE_SECURITY, which no credentials fix. */
const INSECURE = /protocol not secure enough/i;

/** The texts of grpc-js, in our messages, for a sent call whose connection was lost; for unsent calls it has others. */
export const CUT = /: UNAVAILABLE: (?:Connection dropped|(?:read|write) E[A-Z]+)/;

/** Its text for a call that was not sent, as the connection was refused or broke at once. */
export const UNCONNECTED = /^No connection established/;

/** Its text for a call that was refused unprocessed: proxies end a connection after so many calls. */
export const UNSEEN = /^Stream refused by server$/;

/** What grpc-js appends about a failed connection when it has no details, of a proxy or the name resolution. */
const EMPTY_NOTE = /(?:\s*Last error: undefined\.)?\s*Resolution note:\s*$/;

/** The text of grpc-js for a response that is not gRPC but plain HTTP. */
const HTTP_STATUS = /^Received HTTP status code (\d{3})$/;
/** The length of a message, which grpc-js may have read from the first five bytes of something else. */
const CLAIMED_BYTES = /message larger than max \((\d+) vs/;

/**
 * What to do about a failed call, if its text reveals the cause; `NODE` is its name. For a certificate, with
 * NODE_TLS_REJECT_UNAUTHORIZED=0, the text is only the code.
 */
const ADVICE: readonly (readonly [sign: RegExp, advice: string])[] = [
  [/wrong version number|packet length too long/i, 'it speaks no TLS: write grpc://NODE'],
  [
    /no application protocol/i,
    'it speaks TLS but no gRPC, like a web server: name the gRPC port of the node',
  ],
  [/cert\w*.has.expired/i, 'its operator has to renew it, or this clock is wrong'],
  [/cert\w*.(?:is.)?not.yet.valid/i, 'this clock is wrong, or its operator made the certificate too early'],
  [
    /ALTNAME_INVALID|does not match certificate/i,
    'its certificate is for other names: use one of those, or ask its operator for another certificate',
  ],
  [
    /self.signed.cert|unable.to.(?:verify.leaf|(?:verify|get)[^.]*cert)/i,
    'its authority is not trusted here: name it in the file of GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  ],
  [
    /Last error: Protocol error/i,
    'what answers there is no gRPC server but perhaps a web server: check the port, and whether it wants TLS (grpcs://)',
  ],
  [INSECURE, 'it wants a connection that is more secure: write grpcs://NODE, or ask its operator'],
  [
    /alert certificate required/i,
    'it wants a client certificate, and none can be given here: name a port that wants none',
  ],
  [/alert protocol version/i, 'its TLS is older than 1.2: its operator has to renew it'],
  [
    /Last error: (?:Failed to connect|read ECONNRESET)/i,
    'it hung up at once: if it speaks TLS, write grpcs://NODE; else nothing may run behind what listens there',
  ],
  [
    /Call ended without gRPC status/i,
    'a proxy before it drops how calls end (HTTP/2 trailers), so it has to pass gRPC on; or it is no gRPC server',
  ],
  [/Name resolution failed/i, 'no address is known for this name: check it, and the DNS of this machine'],
  [/waiting for name resolution/i, 'the DNS of this machine does not answer: check /etc/resolv.conf'],
  [
    /Waiting for LB pick/i,
    'no connection came about: the node hangs, a firewall drops it, or something else listens there',
  ],
  [
    /flow_collection_indexer\.v1/,
    'it is an access node, or an indexer of an older version: peers are the gRPC ports of current indexers',
  ],
];

/** What to do about a call that something other than a node answered: a proxy, a balancer, a web server. */
function adviceOnHttp(code: number, isReached: boolean): string {
  const what = `what answered is not the node but a web server or proxy (HTTP ${code})`;
  if (code === 503 && isReached) return `${what}: it limits its callers`;
  if (code === 502 || code === 503) return `${what}: it reaches no node behind it`;
  if (code === 504) return `${what}: the node behind it is too slow for it`;
  if (code === 401 || code === 403 || code === 407 || code === 429) return what;
  return `${what}: check address and port`;
}

function adviceOn(details: string, node: string, isReached: boolean): string | undefined {
  const http = HTTP_STATUS.exec(details)?.[1];
  if (http !== undefined) return adviceOnHttp(Number(http), isReached);
  if (isText(Number(CLAIMED_BYTES.exec(details)?.[1])))
    return 'that is no length but text: what answered is not the node but a web server or proxy';
  return ADVICE.find(([sign]) => sign.test(details))?.[1].replace('NODE', () => node);
}

/** True for a length whose four bytes are printable, or end a line: no message has half a gigabyte. */
function isText(length: number): boolean {
  return [24, 16, 8, 0].every((bits) => {
    const byte = Math.floor(length / 2 ** bits) % 256;
    return (byte >= 0x20 && byte < 0x7f) || byte === 0x0a || byte === 0x0d;
  });
}

/**
 * The kind of upstream error of a status. Every status is expected; OK is never passed in. `isReached`: the node itself has
 * answered other calls a moment ago.
 */
export function kindOfStatus({ code, details }: CallStatus, isReached = false): UpstreamErrorKind {
  switch (code) {
    case status.NOT_FOUND:
    case status.OUT_OF_RANGE:
      if (NOT_YET.test(details)) return 'not_yet';
      return namedRoot(details) === undefined ? 'not_found' : 'below_root';
    case status.INVALID_ARGUMENT:
      return namedRoot(details) === undefined ? 'invalid_argument' : 'below_root';
    case status.RESOURCE_EXHAUSTED:
      return TOO_LARGE.test(details) ? 'too_large' : 'rate_limited';
    case status.UNIMPLEMENTED:
      // Proxies answer 404 while nothing is behind them; that says nothing about the node's calls.
      return HTTP_STATUS.test(details) ? 'internal' : 'unimplemented';
    case status.FAILED_PRECONDITION:
      return namedRoot(details)?.of === 'stream' ? 'below_root' : 'failed_precondition';
    case status.DEADLINE_EXCEEDED:
      return 'deadline';
    // CANCELLED comes from the node (it shuts down): our own cancellation never arrives this way.
    case status.CANCELLED:
    case status.UNAVAILABLE: {
      // Proxies limit rates by HTTP's own status; nginx, by default, by 503, which also means that it reaches no node.
      const http = HTTP_STATUS.exec(details)?.[1];
      return http === '429' || (http === '503' && isReached) ? 'rate_limited' : 'unavailable';
    }
    case status.UNAUTHENTICATED:
    case status.PERMISSION_DENIED:
      return INSECURE.test(details) ? 'unavailable' : 'unauthenticated';
    // For any other status, ABORTED included, the node has answered.
    default:
      return UNPACKABLE.test(details) ? 'malformed' : 'internal';
  }
}

export function upstreamError(
  callStatus: CallStatus,
  where: { readonly node: string; readonly method: AccessMethod },
  {
    fix,
    proxy,
    isReached = false,
  }: {
    /** What to do if the node refuses our credentials, or requires some. */
    readonly fix?: string | undefined;
    /** What to say if the node is not reached. */
    readonly proxy?: string | undefined;
    /** See `kindOfStatus`. */
    readonly isReached?: boolean;
  } = {},
): UpstreamError {
  const { code } = callStatus;
  // A node may send as much as headers can hold, and what a terminal would act on.
  const details = sentence(callStatus.details);
  const kind = kindOfStatus({ code, details }, isReached);
  const lowestHeight = kind === 'below_root' ? namedRoot(details)?.height : undefined;
  const isUnreached = kind === 'unavailable' || kind === 'deadline';
  const words = [
    details.replace(EMPTY_NOTE, ''),
    adviceOn(details, where.node, isReached),
    kind === 'unauthenticated' ? fix : undefined,
    isUnreached ? proxy : undefined,
  ].filter((each) => each !== undefined);
  const name = code in status ? status[code] : `status ${code}`;
  const message = `${where.method} at ${where.node}: ${name}: ${words.join('; ')}`;
  return new UpstreamError(kind, { ...where, lowestHeight }, message);
}
