import type { Metrics } from '../../observability/index.js';

/** Names, in lower case, and values, both as text. */
export type NodeMetadata = Readonly<Record<string, string>>;

/** What one node wants with every call. */
export interface CallCredentials {
  /** Read for each call. Sent to this node alone; its values are never shown. */
  readonly metadata: () => NodeMetadata;
  /** What the operator can do when the node refuses a call for its credentials, or for the lack of them. */
  readonly fix: () => string;
}

/** The metrics of this room. */
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
  /** The node reported its latest finalized block. */
  onHead?(height: number): void;
  /** A call could not reach the node, or its connection broke. */
  onOutage?(): void;
  /** Calls kept timing out and now use a new connection. Reported once until something is answered again. */
  onReconnect?(): void;
}
