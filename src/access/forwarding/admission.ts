/** A call to be forwarded to one node. */
export interface AdmittedCall {
  readonly method: string;
  readonly isStream: boolean;
}

/** What the end of a forwarded call says about the node's rate limit. */
export type AdmissionEnd = 'answered' | 'rate_limited' | 'other';

/** A call that may be sent. */
export interface Admission {
  /** The call is over. To be called once. */
  over(end: AdmissionEnd): void;
  /** Calls `end` when the stream must make way for the indexer. */
  onMakeWay(end: () => void): void;
}

/** Why a call may not be sent. */
export type NotAdmitted =
  /** Too many wait, or streams are scarce. */
  | 'busy'
  /** The node may not be asked now. */
  | 'gone'
  /** The desk did not answer in time. */
  | 'silent';

/**
 * Admits forwarded calls behind the indexer's own: they get what the indexer leaves of a method's rate, and their
 * streams make way when streams are scarce.
 */
export interface ForwardingDesk {
  /** Waits until the call may be sent. Expected errors: the signal's abort reason. */
  admit(node: string, call: AdmittedCall, signal: AbortSignal): Promise<Admission | NotAdmitted>;
}
