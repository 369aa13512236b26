import type { Metrics } from '../../observability/index.js';

/** Names, in lower case, and values, both as text. */
export type NodeMetadata = Readonly<Record<string, string>>;

/** What one node requires with every call. */
export interface CallCredentials {
  /** Read for each call. Sent to this node alone; its values are never shown. */
  readonly metadata: () => NodeMetadata;
  /** What the operator can do when the node refuses a call for its credentials, or for the lack of them. */
  readonly fix: () => string;
}

export type AccessMetrics = Pick<
  Metrics,
  | 'upstreamRequests'
  | 'upstreamErrors'
  | 'upstreamLatency'
  | 'foreignNodes'
  | 'endpointLies'
  | 'invalidBlocks'
>;

/** What a node reports to its pool. Called synchronously from within calls; must not throw. */
export interface NodeEvents {
  /** The node refused a height as below its lowest one. */
  onLowestHeight?(height: number): void;
  onHead?(height: number): void;
  /** A call could not reach the node, or its connection broke. */
  onOutage?(): void;
  /** Calls kept timing out and now use a new connection. Reported once until a call is answered again. */
  onReconnect?(): void;
}

export interface AdmittedCall {
  readonly method: string;
  readonly isStream: boolean;
}

/** How a forwarded call ended, as far as it concerns the node's rate limit. */
export type AdmissionEnd = 'answered' | 'rate_limited' | 'other';

export interface Admission {
  /** Call it once, when the call is over. */
  over(end: AdmissionEnd): void;
  /** Calls `end` when the stream must make way for the indexer. */
  onMakeWay(end: () => void): void;
}

export type NotAdmitted =
  /** Too many calls wait, or streams are scarce. */
  | 'busy'
  /** The node may not be called now. */
  | 'gone'
  /** The admission did not answer in time. */
  | 'silent';

/**
 * Admits forwarded calls behind the indexer's own: they get the part of a method's rate that the indexer leaves, and
 * their streams end when streams are scarce.
 */
export interface ForwardingAdmission {
  /** Waits until the call may be sent. Expected errors: the signal's abort reason. */
  admit(node: string, call: AdmittedCall, signal: AbortSignal): Promise<Admission | NotAdmitted>;
}
