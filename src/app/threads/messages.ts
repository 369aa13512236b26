import type { AdmissionEnd, AdmittedCall, Endpoint, NodeMetadata, NotAdmitted } from '../../access/index.js';
import type { ApiSecrets, NamedHeight, StatusDocument, WorkMoment } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Identifier } from '../../flow/index.js';
import type { LogLevel, MetricsSnapshot } from '../../observability/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { FoundDamage, HeightRange, ShownIndex } from '../../storage/index.js';
import type { Address } from '../lifecycle/daemonRecord.js';

/** What a reader thread works by: given at its start, and again when it has changed. All in this file can be cloned between threads. */
export interface ReaderOptions {
  /** `api.maxConnections`: of each port, as open files allow. Port 0 is replaced by the port found, once a thread has listened. */
  readonly config: DaemonConfig;
  /** The most connections to the node of `api.forwardRest`. */
  readonly forwardSockets?: number;
  /** Absent: nothing guards the ports. */
  readonly secrets?: ApiSecrets;
  /** What forwarded calls to each node carry, by `host:port`. Default: nothing. */
  readonly nodeMetadata?: ReadonlyMap<string, NodeMetadata> | undefined;
}

/** The same, as a thread is started with it. */
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

/** What readers are shown: the index, and what else they need to know about the daemon. */
export interface ReaderState extends IndexMoment {
  readonly isReady: boolean;
  /** Why nothing may be forwarded now; `undefined` while it may. */
  readonly forwardingOff: string | undefined;
  /** Where calls may be forwarded to, in the order of asking. */
  readonly nodes: readonly Endpoint[];
}

/** What the reader thread serves to the indexing thread. */
export interface ReaderCalls {
  /** What may be read from now on. The first call starts the servers. Returns why the database of readers does not answer. */
  show(state: ReaderState): string | undefined;
  /** A forwarded call must end. */
  makeWay(id: number): void;
  change(options: ReaderOptions): void;
  metrics(): Promise<MetricsSnapshot>;
  stop(): void;
}

/** What the indexing thread serves to the reader thread: what only it knows, and where all logs go. */
export interface IndexerCalls {
  status(): StatusDocument;
  momentAt(height: number): WorkMoment;
  naming(id: Identifier): NamedHeight | undefined;
  /** Returns when the forwarded call with this id may be sent, or may not. */
  admit(id: number, node: string, call: AdmittedCall): Promise<'admitted' | NotAdmitted>;
  /** A call that was admitted, or still waits for that, is over. */
  over(id: number, end: AdmissionEnd): void;
  damaged(damage: FoundDamage): void;
  listens(addresses: ReaderAddresses): void;
  /** The operator must fix something; the thread ends. */
  refused(exit: ExitReason, message: string): void;
  log(level: Exclude<LogLevel, 'silent'>, fields: object, message: string): void;
  /** So many records were not sent. */
  logLost(records: number): void;
}
