import { status } from '@grpc/grpc-js';
import { UpstreamError } from '../UpstreamError.js';
import type { AccessMethod } from '../types.js';
import type { UpstreamErrorKind } from '../UpstreamError.js';

/** The gRPC status of a call. */
export interface CallStatus {
  readonly code: status;
  readonly details: string;
}

/** A root height that a node named in a refusal. */
interface NamedRoot {
  readonly height: number;
  /**
   * `spork`: the root of its spork. `node`: the first height of this node, in the middle of a spork. `stream`: the first
   * height of its stream; the node's other calls may go further back. Old texts do not say which.
   */
  readonly of: 'spork' | 'node' | 'stream' | undefined;
}

/** The refusal of a stream that was requested from too low a height. */
const BELOW_INDEX = /start height \d+ is lower than (?:the )?lowest indexed height (\d+)/i;

const BELOW_ROOT = [
  /less than the (spork|node)(?:'s)? root block height (\d+)/i,
  /greater than or equal to the (?:(spork|node)(?:'s)? )?root (?:block )?height (\d+)/i,
];

/** The root height in the text of a refusal, or `undefined` when it names none. */
export function namedRoot(details: string): NamedRoot | undefined {
  const indexed = BELOW_INDEX.exec(details)?.[1];
  if (indexed !== undefined) {
    const height = Number(indexed);
    return Number.isSafeInteger(height) ? { height, of: 'stream' } : undefined;
  }
  for (const pattern of BELOW_ROOT) {
    const match = pattern.exec(details);
    if (match === null) continue;
    const height = Number(match[2]);
    if (!Number.isSafeInteger(height)) return undefined;
    const of = match[1]?.toLowerCase();
    return { height, of: of === 'spork' || of === 'node' ? of : undefined };
  }
  return undefined;
}

/** Texts of a size limit, which shares its status code with rate limits: grpc-js, its decompression, grpc-go. */
const TOO_LARGE = /message larger than max|decompresses to a size larger/i;
/** The node knows the block but has not fetched this collection yet. */
const NOT_YET = /please retry for collection/i;
/** A compressed message that cannot be decompressed is malformed. */
const UNPACKABLE = /failed to decompress|unsupported compression/i;

/** The most characters of a status text to read and keep: a node may send as much as headers can hold. */
const MAX_DETAILS_LENGTH = 1_000;

/** What grpc-js appends to a failed connection when it has nothing to say about name resolution. */
const EMPTY_NOTE = /\s*Resolution note:\s*$/;

/** The text of grpc-js for a connection that a proxy refused; only then is the last error undefined. */
const THROUGH_PROXY = /Last error: undefined\b/;

/** What to do about a failed connection, if its text reveals the cause. */
function mendOfConnection(details: string, node: string): string | undefined {
  if (THROUGH_PROXY.test(details)) {
    return `the proxy that grpc_proxy, https_proxy or http_proxy names does not let it through; no_proxy=${node.replace(/:\d+$/, '')} goes around it`;
  }
  if (/wrong version number|packet length too long/i.test(details))
    return `it speaks no TLS: write grpc://${node}`;
  if (/certificate has expired/i.test(details)) return 'its operator has to renew it, or this clock is wrong';
  if (/self.signed certificate|unable to (?:verify|get)[^.]* certificate/i.test(details)) {
    return 'its authority is not trusted here: name it in the file of GRPC_DEFAULT_SSL_ROOTS_FILE_PATH';
  }
  return undefined;
}

/** The kind of upstream error of a status. Every status is expected; OK is never passed in. */
export function kindOfStatus({ code, details }: CallStatus): UpstreamErrorKind {
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
      return 'unimplemented';
    case status.FAILED_PRECONDITION:
      return namedRoot(details)?.of === 'stream' ? 'below_root' : 'failed_precondition';
    case status.DEADLINE_EXCEEDED:
      return 'deadline';
    // CANCELLED comes from the node (it shuts down): our own cancellation never arrives this way.
    case status.CANCELLED:
    case status.UNAVAILABLE:
      return 'unavailable';
    case status.UNAUTHENTICATED:
      return 'unauthenticated';
    // For any other status, ABORTED and PERMISSION_DENIED included, the node has answered.
    default:
      return UNPACKABLE.test(details) ? 'malformed' : 'internal';
  }
}

/** The typed error of a call that ended with this status. `mend`: what to do if the node requires credentials. */
export function upstreamError(
  callStatus: CallStatus,
  where: { readonly node: string; readonly method: AccessMethod },
  mend?: string,
): UpstreamError {
  const { code } = callStatus;
  const details = callStatus.details.slice(0, MAX_DETAILS_LENGTH);
  const kind = kindOfStatus({ code, details });
  const lowestHeight = kind === 'below_root' ? namedRoot(details)?.height : undefined;
  const known = kind === 'unavailable' ? mendOfConnection(details, where.node) : undefined;
  const advice = kind === 'unauthenticated' ? mend : known;
  const next = advice === undefined ? '' : `; ${advice}`;
  const name = code in status ? status[code] : `status ${code}`;
  return new UpstreamError(
    kind,
    { ...where, lowestHeight },
    `${where.method} at ${where.node}: ${name}: ${details.replace(EMPTY_NOTE, '')}${next}`,
  );
}
