import type { AdmissionEnd, AdmittedCall, Endpoint, NodeMetadata, NotAdmitted } from '../../access/index.js';
import type { ApiSecrets, NamedHeight, StatusDocument, WorkMoment } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Identifier } from '../../flow/index.js';
import type { LogLevel, MetricsSnapshot } from '../../observability/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { FoundDamage, HeightRange, ShownIndex } from '../../storage/index.js';
import type { Address } from '../lifecycle/daemonRecord.js';

/** What a reader thread starts with. Everything in this file can be cloned between threads. */
export interface ReaderOptions {
  readonly storePath: string;
  /** The database, if the index is not in a directory. */
  readonly storeUrl?: string | undefined;
  readonly chainId: string;
  /** The program's version. */
  readonly version: string;
  /** Port 0 is replaced by the port found, once a thread has listened. */
  readonly api: Pick<DaemonConfig['api'], 'host' | 'port' | 'grpcPort' | 'forward' | 'forwardRest'> & {
    /** The most connections to the node of `forwardRest`. */
    readonly forwardSockets?: number;
  };
  readonly settings: ReaderSettings;
  readonly accessNodes: readonly string[];
  readonly maxMessageBytes: number;
  readonly userAgent: string;
}

/** The same, as a thread is given it. */
export interface ReaderData extends ReaderOptions {
  /** Memory of an `EndGate`. */
  readonly gate: SharedArrayBuffer;
}

/** What can change while a reader thread runs. */
export interface ReaderSettings {
  readonly logLevel: LogLevel;
  readonly corsOrigins: readonly string[];
  readonly ratePerSecondPerAddress: number;
  /** Of each port. */
  readonly maxConnections: number;
  /** Absent: nothing guards the ports. */
  readonly secrets?: ApiSecrets;
  /** What forwarded calls to each node carry, by `host:port`. Default: nothing. */
  readonly nodeMetadata?: ReadonlyMap<string, NodeMetadata>;
}

/** The open connections of each port. */
export interface OpenConnections {
  readonly api: number;
  readonly grpc: number;
}

export interface ReaderAddresses {
  readonly api: Address;
  /** Absent when gRPC is off. */
  readonly grpc?: Address;
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

/** What else readers need to know about the daemon. */
export interface Surroundings {
  readonly isReady: boolean;
  /** Why nothing may be forwarded now; `undefined` while it may. */
  readonly forwardingOff: string | undefined;
  /** Where calls may be forwarded to, in the order of asking. */
  readonly nodes: readonly Endpoint[];
}

/** What only the indexing thread knows. */
export type Question =
  | { readonly about: 'status' }
  | { readonly about: 'height'; readonly height: number }
  | { readonly about: 'id'; readonly id: Identifier };

export interface Answers {
  readonly status: StatusDocument;
  readonly height: WorkMoment;
  readonly id: NamedHeight | undefined;
}
export type Answer = Answers[keyof Answers];

export type ToReader =
  /** At most one unacknowledged at a time. The first one starts the servers. */
  | {
      readonly kind: 'state';
      readonly moment: IndexMoment;
      /** Absent: unchanged. */
      readonly surroundings?: Surroundings;
    }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: Answer }
  | { readonly kind: 'admission'; readonly id: number; readonly outcome: 'admitted' | NotAdmitted }
  | { readonly kind: 'makeWay'; readonly id: number }
  | { readonly kind: 'settings'; readonly settings: ReaderSettings }
  | { readonly kind: 'scrape' }
  /** Stop gracefully. */
  | { readonly kind: 'stop' };

export type FromReader =
  /** Absent while its servers do not listen. */
  | { readonly kind: 'ack'; readonly connections?: OpenConnections | undefined }
  | { readonly kind: 'listening'; readonly addresses: ReaderAddresses }
  /** The operator must fix something; the thread ends. */
  | { readonly kind: 'refused'; readonly exit: ExitReason; readonly message: string }
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question }
  | { readonly kind: 'admit'; readonly id: number; readonly node: string; readonly call: AdmittedCall }
  /** A call that was admitted, or queued, is over. */
  | { readonly kind: 'over'; readonly id: number; readonly end: AdmissionEnd }
  /** A read has met damage. */
  | { readonly kind: 'damage'; readonly damage: FoundDamage }
  | { readonly kind: 'metrics'; readonly metrics: MetricsSnapshot }
  | {
      readonly kind: 'log';
      readonly level: Exclude<LogLevel, 'silent'>;
      readonly fields: object;
      readonly message: string;
    }
  | { readonly kind: 'logLost'; readonly records: number };

/** One end of the channel between the two threads: a `MessagePort` or a `Worker`. */
export interface Port {
  postMessage(message: unknown): void;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}
