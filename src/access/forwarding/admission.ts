/** A call to forward to one node. */
export interface AdmittedCall {
  readonly method: string;
  readonly isStream: boolean;
}

/** How a forwarded call ended, as far as it concerns the node's rate limit. */
export type AdmissionEnd = 'answered' | 'rate_limited' | 'other';

/** A call that may be sent. */
export interface Admission {
  /** Call it once, when the call is over. */
  over(end: AdmissionEnd): void;
  /** Calls `end` when the stream must make way for the indexer. */
  onMakeWay(end: () => void): void;
}

/** Why a call may not be sent. */
export type NotAdmitted =
  /** Too many wait, or streams are scarce. */
  | 'busy'
  /** The node may not be called now. */
  | 'gone'
  /** The desk did not answer in time. */
  | 'silent';

/**
 * Admits forwarded calls behind the indexer's own: they get the part of a method's rate that the indexer leaves, and
 * their streams end when streams are scarce.
 */
export interface ForwardingDesk {
  /** Waits until the call may be sent. Expected errors: the signal's abort reason. */
  admit(node: string, call: AdmittedCall, signal: AbortSignal): Promise<Admission | NotAdmitted>;
}
