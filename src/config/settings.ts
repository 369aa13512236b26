import {
  boolean,
  byteSize,
  choice,
  httpAddress,
  integer,
  integerOr,
  list,
  optional,
  origins,
  text,
} from './formats.js';
import type { Format } from './formats.js';
import { networkNames } from './networks.js';
import type { NetworkName } from './networks.js';

/** One configuration key: the only source of its flag, its environment variable, its file key and its documentation. */
export interface Setting<T = unknown> {
  readonly doc: string;
  readonly format: Format<T>;
  readonly default: T;
  /** How the default reads in the documentation, where it depends on something else. */
  readonly defaultDoc?: string;
  /** What the value is, in a word, for the help, where neither format nor key tells. */
  readonly value?: string;
  /** The flag without dashes, where it is not the key in kebab case (a repeatable flag is in the singular). */
  readonly flag?: string;
}

/** A table of settings by key; the dots of a key are the nesting of a file. */
export type Settings = Readonly<Record<string, Setting>>;

/** The type of a table's values. */
export type ValuesOf<S extends Settings> = {
  readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never;
};

function setting<T>(definition: Setting<T>): Setting<T> {
  return definition;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

/** The largest height accepted anywhere: heights are safe integers. */
export const MAX_HEIGHT = Number.MAX_SAFE_INTEGER;
const MAX_NODES = 64;

const endpoint = text('an endpoint such as grpc://host:port, grpcs://host:port or host:port');
const host = text('a host name or address');
const MAX_PORT = 65_535;
const port = integer(0, MAX_PORT);

/** The keys of the daemon, in the order of the documentation. */
export const daemonSettings = {
  network: setting<NetworkName>({
    doc: 'The Flow network. It decides the chain id that nodes and store must have.',
    format: choice(networkNames),
    default: 'mainnet',
  }),
  accessNodes: setting<readonly string[]>({
    doc: 'Access nodes to index from; repeat the flag to name several. The best one is asked first.',
    format: list(endpoint, MAX_NODES),
    default: [],
    defaultDoc: "the network's public node",
    flag: 'access-node',
  }),
  dataDir: setting<string | null>({
    doc: 'Directory of the store. Created with access for the owner only.',
    format: optional(text('a directory')),
    default: null,
    defaultDoc: './data/<network>',
  }),
  startHeight: setting<number | 'root' | 'latest'>({
    doc: 'First height indexed on an empty store: a height, `root` (the lowest that the live spork serves) or `latest`. On a filled store a number outside [first … indexed + 1] is refused.',
    format: integerOr(0, MAX_HEIGHT, ['root', 'latest']),
    default: 'latest',
  }),
  stopHeight: setting<number | null>({
    doc: 'Index through this height, ask for nothing above it, then exit 0.',
    format: optional(integer(0, MAX_HEIGHT)),
    default: null,
    defaultDoc: 'none: follow the chain',
  }),
  window: setting({
    doc: 'K: heights above the watermark that are worked on at once. Nothing above it is ever asked for.',
    value: 'heights',
    format: integer(1, 4096),
    default: 256,
  }),
  maxProcessing: setting<number | null>({
    doc: 'Jobs (heights) handed out at once.',
    value: 'heights',
    format: optional(integer(1, 4096)),
    default: null,
    defaultDoc: 'window',
  }),
  workersPerHeight: setting({
    doc: 'Collection requests outstanding at once for one height.',
    value: 'requests',
    format: integer(1, 256),
    default: 8,
  }),
  maxInFlightBytes: setting({
    doc: 'Bytes of received collections that may wait for their commit. The lowest missing height is admitted whatever this budget holds.',
    format: byteSize(MIB, 16 * GIB),
    default: 128 * MIB,
    defaultDoc: '128MiB',
  }),
  'edi.enabled': setting({
    doc: 'Follow the execution-data stream beside the collection requests.',
    format: boolean,
    default: true,
    flag: 'edi',
  }),
  'edi.nodes': setting<readonly string[]>({
    doc: 'Nodes that serve the execution-data stream; repeat the flag to name several.',
    format: list(endpoint, MAX_NODES),
    default: [],
    defaultDoc: 'the access nodes',
    flag: 'edi-node',
  }),
  ediOnly: setting({
    doc: 'Index from the execution-data stream alone: no collection is ever requested.',
    format: boolean,
    default: false,
  }),
  'access.ratePerSecond': setting<number | null>({
    doc: 'Unary calls per second to each access node and method; 0 = no limit.',
    value: 'calls',
    format: optional(integer(0, 100_000)),
    default: null,
    defaultDoc: '0; 80 when accessNodes is left to the network’s public node',
  }),
  'access.maxMessageBytes': setting({
    doc: 'Larger answers of an access node are refused.',
    format: byteSize(4 * MIB, GIB),
    default: 128 * MIB,
    defaultDoc: '128MiB',
  }),
  'requester.concurrency': setting({
    doc: 'Collection calls under way at once, per access node.',
    value: 'calls',
    format: integer(1, 1024),
    default: 32,
  }),
  'requester.timeoutMs': setting({
    doc: 'Deadline of every unary call, in milliseconds. A call for a collection is given up after 4,000 while another node or call has not been tried for it.',
    format: integer(100, 600_000),
    default: 10_000,
  }),
  'requester.backoffMinMs': setting({
    doc: 'Shortest pause before a collection is asked for again, in milliseconds. It doubles with each attempt. A collection of a new block that the node has yet to fetch is asked for again sooner, a few times.',
    format: integer(1, 600_000),
    default: 250,
  }),
  'requester.backoffMaxMs': setting({
    doc: 'Longest pause before a collection is asked for again, in milliseconds.',
    format: integer(1, 600_000),
    default: 10_000,
  }),
  'requester.unresolvableAfterMs': setting({
    doc: 'A height that no source could complete for this long is reported as unresolvable (and still retried).',
    format: integer(1_000, 86_400_000),
    default: 600_000,
  }),
  'index.accounts': setting({
    doc: 'Keep an index of the transactions of each account, by payer, proposer and authorizer. Switched on later, it is built in the background from what is stored; switched off again, it is kept as it is and not extended.',
    format: boolean,
    default: false,
  }),
  'store.scrubBytesPerSecond': setting({
    doc: 'While it runs, the daemon reads all tables of its store again and again and compares them with their checksums, so many bytes per second; a damaged one stops it, by name (docs/operations.md, What is found, and when). 0 = never: then `verify` is the only one who looks at old tables.',
    format: byteSize(0, GIB),
    default: 2 * MIB,
  }),
  'api.host': setting({
    doc: 'Address that the read API listens on.',
    format: host,
    default: '127.0.0.1',
  }),
  'api.port': setting({
    doc: 'HTTP port of the read API (/status, /v1/…); 0 = any free port.',
    format: port,
    default: 7180,
  }),
  'api.grpcPort': setting<number | 'off'>({
    doc: 'gRPC port of the read API (flow.access.AccessAPI), on the same address; 0 = any free port, `off` = none.',
    format: integerOr(0, MAX_PORT, ['off']),
    default: 7181,
  }),
  'api.forward': setting({
    doc: 'Pass gRPC calls that the index cannot answer (headers, results, accounts, scripts, events, sending, …) on to the access nodes (docs/grpc.md, Forwarding).',
    format: boolean,
    default: false,
  }),
  'api.forwardRest': setting<string | null>({
    doc: 'REST address of an access node, to which requests under /v1 that the index cannot answer are passed on (docs/rest-api.md, Forwarding). Without `/v1`.',
    value: 'url',
    format: optional(httpAddress),
    default: null,
    defaultDoc: 'none: such requests get 404',
  }),
  'api.corsOrigins': setting<readonly string[]>({
    doc: 'Origins whose web pages may use the read API, forwarded requests and /v1/ws included; repeat the flag to name several. `*` = all, as with access nodes; `none` = no page (SECURITY.md, Exposure).',
    format: origins,
    default: ['*'],
    flag: 'api-cors-origin',
  }),
  'api.ratePerSecondPerAddress': setting({
    doc: 'Requests per second that one client address (IPv6: one /64) may send to the read API, over HTTP and over gRPC each; more get 429 or RESOURCE_EXHAUSTED. 0 = no limit. Set it where others than you reach the API.',
    value: 'requests',
    format: integer(0, 100_000),
    default: 0,
  }),
  'metrics.host': setting({
    doc: 'Address that /metrics, /livez and /readyz listen on.',
    format: host,
    default: '127.0.0.1',
  }),
  'metrics.port': setting({
    doc: 'Port of /metrics, /livez and /readyz; 0 = any free port.',
    format: port,
    default: 7182,
  }),
  'ready.maxLag': setting({
    doc: 'Heights behind the head that still count as ready.',
    value: 'heights',
    format: integer(0, MAX_HEIGHT),
    default: 100,
  }),
  'ready.maxHeadAgeSeconds': setting<number | null>({
    doc: 'Seconds that the head of the chain may stand still before the daemon is not ready (`head_stale`); 0 = for ever.',
    value: 'seconds',
    format: optional(integer(0, 86_400)),
    default: null,
    defaultDoc: '120 on mainnet and testnet, else 0',
  }),
  'log.level': setting<'debug' | 'info' | 'warn' | 'error'>({
    doc: 'Least severe level that is logged.',
    format: choice(['debug', 'info', 'warn', 'error']),
    default: 'info',
  }),
  'log.format': setting<'json' | 'pretty' | null>({
    doc: 'One JSON object per line, or lines for the human eye.',
    format: optional(choice(['json', 'pretty'])),
    default: null,
    defaultDoc: 'pretty on a terminal, else json',
  }),
} as const satisfies Settings;

export type DaemonValues = ValuesOf<typeof daemonSettings>;

/** `edi.nodes` → `edi-nodes`; `ediOnly` → `edi-only`. */
export function flagOf(key: string, definition: Setting): string {
  return (
    definition.flag ?? key.replaceAll('.', '-').replace(/[A-Z]/g, (letter) => '-' + letter.toLowerCase())
  );
}

const ENVIRONMENT_PREFIX = 'FCI_';

/** The flag in capitals behind `FCI_`: `--api-port` → `FCI_API_PORT`. */
export function environmentOf(key: string): string {
  const kebab = key.replaceAll('.', '-').replace(/[A-Z]/g, (letter) => '-' + letter.toLowerCase());
  return ENVIRONMENT_PREFIX + kebab.replaceAll('-', '_').toUpperCase();
}

/** True for variables that are meant for us, so that a misspelt one is refused instead of ignored. */
export function isOurEnvironment(name: string): boolean {
  return name.startsWith(ENVIRONMENT_PREFIX);
}
