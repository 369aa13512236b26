import type { AdmissionEnd, AdmittedCall, Endpoint, NodeMetadata, NotAdmitted } from '../../access/index.js';
import type { ApiSecrets, StatusDocument, WorkMoment } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Identifier } from '../../flow/index.js';
import type { LogLevel, MetricsSnapshot } from '../../observability/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { FoundDamage, HeightRange, ShownIndex } from '../../storage/index.js';
import type { Address } from '../lifecycle/daemonRecord.js';

/** The options of a reader thread: sent at its start, and again when they change. All types of this file can be cloned between threads. */
export interface ReaderOptions {
  /** `api.maxConnections`: of each port, as open files allow. Port 0 is replaced by the port found, once a thread has listened. */
  readonly config: DaemonConfig;
  /** The most connections to the node of `api.forwardRest`. */
  readonly forwardSockets?: number;
  /** Absent: nothing guards the ports. */
  readonly secrets?: ApiSecrets;
  /** The metadata of forwarded calls to each node, by `host:port`. Default: none. */
  readonly nodeMetadata?: ReadonlyMap<string, NodeMetadata> | undefined;
}

/** The data that a thread is started with. */
export interface ReaderData extends ReaderOptions {
  /** Memory of an `EndGate`. */
  readonly gate: SharedArrayBuffer;
}

export interface ReaderAddresses {
  readonly api: Address;
  /** Absent when gRPC is off. */
  readonly grpc?: Address | undefined;
}

/** The index at one moment, as readers see it. */
export interface IndexMoment {
  readonly shown: ShownIndex;
  /** `null`: not known yet. */
  readonly head: number | null;
  readonly sealed: number | null;
  /** As in `IndexedRange`. */
  readonly proven?: HeightRange | undefined;
  readonly awaitsProof?: readonly HeightRange[] | undefined;
}

/** The state that the reader thread works from: the index, and what else it needs to know about the daemon. */
export interface ReaderState extends IndexMoment {
  readonly isReady: boolean;
  /** Why nothing may be forwarded now; `undefined` while it may. */
  readonly forwardingOff: string | undefined;
  /** The nodes that calls may be forwarded to, in order of preference. */
  readonly nodes: readonly Endpoint[];
}

/** The calls that the reader thread serves to the indexing thread. */
export interface ReaderCalls {
  /** Sets what may be read from now on. The first call starts the servers. Returns why the database of readers does not answer. */
  show(state: ReaderState): string | undefined;
  /** A forwarded call must end. */
  makeWay(id: number): void;
  change(options: ReaderOptions): void;
  metrics(): Promise<MetricsSnapshot>;
  stop(): void;
}

/** The calls that the indexing thread serves to the reader thread: queries only it can answer, and the log. */
export interface IndexerCalls {
  status(): StatusDocument;
  momentAt(key: number | Identifier): WorkMoment;
  /** Returns when the forwarded call with this id may be sent, or may not. */
  admit(id: number, node: string, call: AdmittedCall): Promise<'admitted' | NotAdmitted>;
  /** A call that was admitted, or still waits for admission, is over. */
  over(id: number, end: AdmissionEnd): void;
  damaged(damage: FoundDamage): void;
  listens(addresses: ReaderAddresses): void;
  /** The operator must fix something; the thread ends. */
  refused(exit: ExitReason, message: string): void;
  log(level: Exclude<LogLevel, 'silent'>, fields: object, message: string): void;
  /** The number of log records that were dropped. */
  logLost(records: number): void;
}
