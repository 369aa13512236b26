/** A call of others that is to be sent to one node. */
export interface AdmittedCall {
  readonly method: string;
  readonly isStream: boolean;
}

/** What the end of a forwarded call says of the rate that its node allows. */
export type AdmissionEnd = 'answered' | 'rate_limited' | 'other';

/** A call that may be sent. */
export interface Admission {
  /** The call is over. To be called once. */
  over(end: AdmissionEnd): void;
  /** `end` is called when a stream has to make way for the indexer. */
  onMakeWay(end: () => void): void;
}

/** Why a call may not be sent. */
export type NotAdmitted =
  /** Too many wait, or streams are scarce. */
  | 'busy'
  /** The node may not be asked, now. */
  | 'gone'
  /** Whoever decides did not answer in time. */
  | 'silent';

/**
 * Lets calls of others through to the nodes, behind the indexer's: of the rate of a method they get what the indexer leaves,
 * and their streams make way where streams are scarce.
 */
export interface ForwardingDesk {
  /** Waits for the turn of a call. Expected errors: the signal's abort reason. */
  admit(node: string, call: AdmittedCall, signal: AbortSignal): Promise<Admission | NotAdmitted>;
}
