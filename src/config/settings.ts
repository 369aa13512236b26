import { boolean, byteSize, choice, heightsToFill, httpAddress, integer } from './formats.js';
import { integerOr, list, origins, text, words } from './formats.js';
import type { Format } from './formats.js';
import { networkNames } from './networks.js';

/** One configuration key: the single source of its flag, environment variable, file key and documentation. */
export interface Setting<T = unknown> {
  readonly doc: string;
  readonly format: Format<unknown>;
  /** `null`: unset, which needs no format. */
  readonly default: T;
  /** The default in words, if it depends on something else. */
  readonly defaultDoc?: string;
  /** It can be changed while the daemon runs, by SIGHUP. */
  readonly isReloadable?: true;
  /** The flag without dashes, if it is not the key in kebab case (repeatable flags are singular). */
  readonly flag?: string;
}

/** Settings by key; dots in a key become nesting in a file. */
export type Settings = Readonly<Record<string, Setting>>;

/** The values of a settings table. */
export type ValuesOf<S extends Settings> = {
  readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never;
};

type Described<T> = Omit<Setting, 'format' | 'default'> & { readonly format: Format<T> };

/** Infers the type of a setting's value; without a default, `null` stands for a value that is not given. */
export function setting<T>(definition: Described<T> & { readonly default: NoInfer<T> }): Setting<T>;
export function setting<T>(definition: Described<T>): Setting<T | null>;
export function setting<T>(definition: Described<T> & { readonly default?: T }): Setting<T | null> {
  return { default: null, ...definition };
}

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

/** The largest height we accept: heights are safe integers. */
export const MAX_HEIGHT = Number.MAX_SAFE_INTEGER;
const MAX_NODES = 64;

const endpoint: Format<string> = {
  ...text('an endpoint such as grpc://host:port, grpcs://host:port or host:port', 'endpoint'),
  isSensitive: true,
};
const database: Format<string> = {
  ...text('a database such as postgres://host:port/database', 'postgres://host/database'),
  isSensitive: true,
};
const file = text('a file', 'file');
const host = text('a host name or address');
const MAX_PORT = 65_535;
const port = integer(0, MAX_PORT);

/** What a process does when several share one database. */
export const allRoles = ['live', 'backfill', 'api'] as const;
export type Role = (typeof allRoles)[number];

/** The daemon's keys, in the order of the documentation. */
export const daemonSettings = {
  network: setting({
    doc: 'The Flow network. Nodes and store must have its chain id.',
    format: choice(networkNames),
    default: 'mainnet',
  }),
  accessNodes: setting({
    doc: 'Access nodes to index from; repeat the flag for several. The best one is asked first.',
    format: list(endpoint, MAX_NODES),
    default: [],
    defaultDoc: "the network's public node",
    flag: 'access-node',
  }),
  dataDir: setting({
    doc: 'Directory of the store. Created for the owner only.',
    format: text('a directory'),
    defaultDoc: './data/<network>',
  }),
  store: setting({
    doc: 'PostgreSQL database that holds the index in place of the data directory (docs/postgresql.md). Pass the password in PGPASSWORD or PGPASSFILE: everyone on the machine can see flags.',
    format: database,
    defaultDoc: 'none: LevelDB in `dataDir`',
  }),
  fromSnapshot: setting({
    doc: 'If there is no store yet, begin with this copy of one: a directory that `backup` made, or the URL of a tar archive of it. All of it is verified, every id recomputed, before it becomes the store (docs/copies.md).',
    format: text('a directory or a URL', 'directory or URL'),
  }),
  roles: setting({
    doc: 'What this process does when several share one database (`store`): `live` follows the chain, one process at a time; `backfill` fills in history; `api` serves readers. Refused without `store` (docs/scale-out.md, Many machines).',
    format: words(allRoles, 'roles'),
    defaultDoc: 'all of them',
  }),
  startHeight: setting({
    doc: 'First height to index on an empty store: a height, `root` (the lowest height of the live spork) or `latest`. On a filled store, a number outside [first … indexed + 1] is refused.',
    format: integerOr(0, MAX_HEIGHT, ['root', 'latest']),
    default: 'latest',
  }),
  stopHeight: setting({
    doc: 'Index up to this height, request nothing above it, then exit 0.',
    format: integer(0, MAX_HEIGHT),
    defaultDoc: 'none: follow the chain',
  }),
  window: setting({
    doc: 'K: how many heights above the watermark are worked on at once. Nothing above is ever requested.',
    format: integer(1, 4096, 'heights'),
    default: 256,
  }),
  maxProcessing: setting({
    doc: 'Jobs (heights) in progress at once.',
    format: integer(1, 4096, 'heights'),
    defaultDoc: 'window',
  }),
  workersPerHeight: setting({
    doc: 'Collection requests at once for one height.',
    format: integer(1, 256, 'requests'),
    default: 8,
  }),
  maxInFlightBytes: setting({
    doc: 'Bytes of received collections that may wait for their commit. The lowest missing height is always admitted.',
    format: byteSize(MIB, 16 * GIB),
    default: 128 * MIB,
  }),
  'edi.enabled': setting({
    doc: 'Use the execution-data stream besides collection requests.',
    format: boolean,
    default: true,
    flag: 'edi',
  }),
  'edi.nodes': setting({
    doc: 'Nodes for the execution-data stream; repeat the flag for several.',
    format: list(endpoint, MAX_NODES),
    default: [],
    defaultDoc: 'the access nodes',
    flag: 'edi-node',
  }),
  ediOnly: setting({
    doc: 'Index from the execution-data stream only: never request a collection.',
    format: boolean,
    default: false,
  }),
  peers: setting({
    doc: 'Other indexers (their gRPC ports) to take collections from, so that the access nodes are asked for few; repeat the flag for several. Blocks and finality still come from the access nodes, and what a peer sends is verified like everything else (docs/copies.md, An indexer feeds indexers).',
    format: list(endpoint, MAX_NODES),
    default: [],
    defaultDoc: 'none',
    flag: 'peer',
  }),
  peerTokenFile: setting({
    doc: 'File that holds the bearer token for the peers and nothing else. The token is sent only to them; name them as grpcs://. Read again when it changes, and on SIGHUP (docs/tls-and-tokens.md).',
    format: file,
    defaultDoc: 'none: the peers ask for none',
  }),
  'access.sporkRoot': setting({
    doc: 'Root height of a spork that config/sporks.json lacks. Needed only if `/readyz` says so.',
    format: integer(0, MAX_HEIGHT, 'height'),
  }),
  'access.metadataFile': setting({
    doc: 'File with the metadata (headers) that nodes want with every call, such as `x-token`, `api_key` or `authorization`: one line `host:port name: value` for each, sent to that node alone. Read again when it changes, and on SIGHUP (docs/tls-and-tokens.md, Metadata for access nodes).',
    format: file,
    defaultDoc: 'none: the nodes want nothing',
  }),
  'access.metadataWithoutTls': setting({
    doc: 'Send such metadata also to nodes that are not called over TLS, where anyone on the way can read it. Without this, the daemon refuses to start.',
    format: boolean,
    default: false,
  }),
  'access.ratePerSecond': setting({
    doc: 'Unary calls per second to each access node and method; 0 = no limit.',
    format: integer(0, 100_000, 'calls'),
    defaultDoc: '0; 80 if accessNodes is left at the network’s public node',
  }),
  'access.maxMessageBytes': setting({
    doc: 'Larger answers from access nodes are refused.',
    format: byteSize(4 * MIB, GIB),
    default: 128 * MIB,
  }),
  'requester.concurrency': setting({
    doc: 'Collection calls at once, per access node.',
    format: integer(1, 1024, 'calls'),
    default: 32,
  }),
  'requester.timeoutMs': setting({
    doc: 'Deadline of every unary call, in milliseconds. A collection call is given up after 4,000 if another node or call has not been tried yet.',
    format: integer(100, 600_000),
    default: 10_000,
  }),
  'requester.backoffMinMs': setting({
    doc: "Shortest pause before a collection is requested again, in milliseconds. It doubles with each attempt. A new block's collection that the node has yet to fetch is retried sooner, a few times.",
    format: integer(1, 600_000),
    default: 250,
  }),
  'requester.backoffMaxMs': setting({
    doc: 'Longest pause before a collection is requested again, in milliseconds.',
    format: integer(1, 600_000),
    default: 10_000,
  }),
  'requester.unresolvableAfterMs': setting({
    doc: 'A height that no source completes within this time is reported as unresolvable (and still retried).',
    format: integer(1_000, 86_400_000),
    default: 600_000,
  }),
  'backfill.plan': setting({
    doc: 'History to fill in below the live range while the live range follows the head: `FROM` or `FROM..TO`, where FROM is a height, `root` (of the live spork), `spork:NAME` (its root) or `everything`. Newest first. Heights that are planned or indexed already are not planned again (docs/scale-out.md).',
    format: heightsToFill,
    flag: 'backfill',
  }),
  'backfill.parallelRanges': setting({
    doc: 'Ranges of history that are filled at once.',
    format: integer(1, 64, 'ranges'),
    default: 4,
  }),
  'backfill.window': setting({
    doc: 'How many heights of a range of history are worked on at once. At least 2: a block counts once its child is known.',
    format: integer(2, 1000, 'heights'),
    default: 64,
  }),
  'index.accounts': setting({
    doc: 'Index the transactions of each account, by payer, proposer and authorizer. When switched on later, the index is built in the background from the store; when switched off, it is kept but not extended.',
    format: boolean,
    default: false,
  }),
  'scrub.bytesPerSecond': setting({
    doc: 'How many bytes per second the running daemon reads to check all tables of its store against their checksums, again and again. A damaged table stops the daemon, which names it (docs/operations.md, What is found, and when). 0 = never: then only `verify` checks old tables.',
    format: byteSize(0, GIB),
    default: 2 * MIB,
  }),
  'disk.minFreeBytes': setting({
    doc: 'With less than this free on the disk of the data directory, indexing pauses (`disk_low`) and reads go on; once a quarter more is free, indexing continues by itself. The default leaves room for what LevelDB compacts at once. 0 = never: then a full disk ends the daemon (docs/operations.md, Before the disk is full).',
    format: byteSize(0, 1024 * GIB),
    default: 512 * MIB,
    isReloadable: true,
  }),
  'api.host': setting({
    doc: 'Listen address of the read API.',
    format: host,
    default: '127.0.0.1',
  }),
  'api.port': setting({
    doc: 'HTTP port of the read API (/status, /v1/…); 0 = any free port.',
    format: port,
    default: 7180,
  }),
  'api.grpcPort': setting({
    doc: 'gRPC port of the read API (flow.access.AccessAPI), on the same address; 0 = any free port, `off` = no gRPC.',
    format: integerOr(0, MAX_PORT, ['off']),
    default: 7181,
  }),
  'api.forward': setting({
    doc: 'Forward gRPC calls that the index cannot answer (headers, results, accounts, scripts, events, sending, …) to the access nodes (docs/grpc.md, Forwarding).',
    format: boolean,
    default: false,
  }),
  'api.forwardRest': setting({
    doc: 'REST address of an access node, without `/v1`. Requests under /v1 that the index cannot answer are forwarded to it (docs/rest-api.md, Forwarding).',
    format: httpAddress,
    defaultDoc: 'none: such requests get 404',
  }),
  'api.store': setting({
    doc: 'Database that readers use in place of `store`: a streaming replica of it; readers see what the replica has. One server, not a pool of several (docs/scale-out.md, Readers from a replica).',
    format: database,
    defaultDoc: 'none: `store`',
  }),
  'api.corsOrigins': setting({
    doc: 'Origins whose web pages may use the read API, including forwarded requests and /v1/ws; repeat the flag for several. `*` = all, as access nodes do; `none` = no page (SECURITY.md, Exposure).',
    format: origins,
    default: ['*'],
    defaultDoc: '*',
    flag: 'api-cors-origin',
    isReloadable: true,
  }),
  'api.ratePerSecondPerAddress': setting({
    doc: 'Requests per second that one client address (IPv6: one /64) may send to the read API, counted separately for HTTP and gRPC; more get 429 or RESOURCE_EXHAUSTED. 0 = no limit. Set it when others can reach the API.',
    format: integer(0, 100_000, 'requests'),
    default: 0,
    isReloadable: true,
  }),
  'api.maxConnections': setting({
    doc: 'Connections at once to each port of the read API, HTTP and gRPC. The HTTP port closes further ones; on the gRPC port they replace idle ones, if there are any. Each needs an open file (docs/operations.md, Files that may be open). When it is lowered, open connections stay.',
    format: integer(1, 65_535, 'connections'),
    default: 512,
    isReloadable: true,
  }),
  'api.keepAliveMs': setting({
    doc: 'How long an HTTP connection of a caller may stay open between two requests, in milliseconds. Keep it above the idle time of a balancer in front, which may otherwise send a request just as the daemon hangs up (docs/operations.md, Behind a proxy or balancer).',
    format: integer(1_000, 3_600_000),
    default: 75_000,
  }),
  'api.tls.certificateFile': setting({
    doc: 'Certificate of both ports of the read API, in PEM, followed by its chain; with it, they accept only TLS. Read again when it changes, and on SIGHUP (docs/tls-and-tokens.md).',
    format: file,
    defaultDoc: 'none: plain text',
  }),
  'api.tls.keyFile': setting({
    doc: 'Private key of that certificate, in PEM and without a passphrase.',
    format: file,
    defaultDoc: 'the file of the certificate',
  }),
  'api.tls.clientCaFile': setting({
    doc: 'Certificate authorities, in PEM. A client certificate from one of them counts as a token.',
    format: file,
  }),
  'api.tokensFile': setting({
    doc: 'File with the bearer tokens of the read API, one per line, each optionally followed by a name; `#` begins a comment. At least 16 characters each. Read again when it changes, and on SIGHUP (docs/tls-and-tokens.md).',
    format: file,
    defaultDoc: 'none: anyone may call',
  }),
  'api.tokensFor': setting({
    doc: 'What needs a token or a client certificate, once any are configured: `everything`, or only what is `expensive`: streams, large answers, and forwarded calls (docs/tls-and-tokens.md has the list).',
    format: choice(['everything', 'expensive']),
    default: 'everything',
  }),
  'metrics.host': setting({
    doc: 'Listen address of /metrics, /livez and /readyz.',
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
    format: integer(0, MAX_HEIGHT, 'heights'),
    default: 100,
    isReloadable: true,
  }),
  'ready.maxHeadAgeSeconds': setting({
    doc: "Seconds the chain's head may stand still before the daemon is not ready (`head_stale`); 0 = no limit.",
    format: integer(0, 86_400, 'seconds'),
    defaultDoc: '120 on mainnet and testnet, else 0',
    isReloadable: true,
  }),
  'log.level': setting({
    doc: 'Lowest level that is logged.',
    format: choice(['debug', 'info', 'warn', 'error']),
    default: 'info',
    isReloadable: true,
  }),
  'log.format': setting({
    doc: 'One JSON object per line, or lines for people.',
    format: choice(['json', 'pretty']),
    defaultDoc: 'pretty on a terminal, else json',
  }),
} as const satisfies Settings;

export type DaemonValues = ValuesOf<typeof daemonSettings>;

/** `edi.nodes` → `edi-nodes`; `ediOnly` → `edi-only`. */
function kebabCase(key: string): string {
  return key.replaceAll('.', '-').replace(/[A-Z]/g, (letter) => '-' + letter.toLowerCase());
}

export function flagOf(key: string, definition?: Setting): string {
  return definition?.flag ?? kebabCase(key);
}

export const ENVIRONMENT_PREFIX = 'FCI_';

/** `api.port` → `FCI_API_PORT`. */
export function environmentOf(key: string): string {
  return ENVIRONMENT_PREFIX + kebabCase(key).replaceAll('-', '_').toUpperCase();
}
