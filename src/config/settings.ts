import { block, boolean, byteSize, choice, heightsToFill, host, httpAddress, integer } from './formats.js';
import { integerOr, list, localPath, origins, text } from './formats.js';
import type { Format } from './formats.js';
import { networkNames } from './networks.js';

/** One configuration key: the single source of its flag, environment variable, file key and documentation. */
export interface Setting<T = unknown> {
  readonly doc: string;
  readonly format: Format<unknown>;
  /** `null`: unset. */
  readonly default: T;
  /** The default in words, if it depends on something else. */
  readonly defaultDoc?: string;
  /** A reload (SIGHUP) applies it to the running daemon. */
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

type About = Omit<Setting, 'format' | 'default'>;

export function setting<T>(format: Format<T>, unlessGiven: NoInfer<T>, about: About): Setting<T> {
  return { format, default: unlessGiven, ...about };
}

/** A setting that is `null` unless it is given. */
export function optional<T>(format: Format<T>, about: About): Setting<T | null> {
  return { format, default: null, ...about };
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
const port = integer(0, 65_535, 'port');
const height = integer(0, MAX_HEIGHT, 'height');
const milliseconds = (min: number, max: number) => integer(min, max, 'ms');

/** What a process does when several share one database. */
export const allRoles = ['live', 'backfill', 'api'] as const;
export type Role = (typeof allRoles)[number];

/** The daemon's keys, in the order of the documentation. */
export const daemonSettings = {
  network: setting(choice(networkNames), 'mainnet', {
    doc: 'The Flow network. Nodes and store must have its chain id.',
  }),
  accessNodes: setting(list(endpoint, MAX_NODES), [], {
    doc: 'Access nodes to index from; repeat the flag for several. The best one is asked first. `none`: a mirror, which takes everything from `peers` (docs/mirrors.md).',
    defaultDoc: "the network's public node",
    flag: 'access-node',
  }),
  dataDir: optional(localPath('directory', 'directory'), {
    doc: 'Directory of the store. Created for the owner only.',
    defaultDoc: './data/<network>',
  }),
  store: optional(database, {
    doc: 'PostgreSQL database that holds the index in place of the data directory (docs/postgresql.md). Pass the password in PGPASSWORD or PGPASSFILE: everyone on the machine can see flags.',
    defaultDoc: 'none: LevelDB in `dataDir`',
  }),
  fromSnapshot: optional(text('a directory or a URL', 'directory or URL'), {
    doc: 'If there is no store yet, begin with this copy of one: a directory that `backup` made, or the URL of a tar archive of it. All of it is verified, every id recomputed, before it becomes the store (docs/copies.md).',
  }),
  roles: optional(list(choice(allRoles), allRoles.length, 1), {
    doc: 'What this process does when several share one database (`store`): `live` follows the chain, one process at a time; `backfill` fills in history; `api` serves readers. Refused without `store` (docs/scale-out.md, Many machines).',
    defaultDoc: 'all of them',
  }),
  startHeight: setting(integerOr(height, ['root', 'latest']), 'latest', {
    doc: 'First height to index on an empty store: a height, `root` (the lowest height of the live spork) or `latest`. On a filled store, a number outside [first … indexed + 1] is refused.',
  }),
  stopHeight: optional(height, {
    doc: 'Index up to this height, request nothing above it, then exit 0.',
    defaultDoc: 'none: follow the chain',
  }),
  window: setting(integer(1, 4096, 'heights'), 256, {
    doc: 'K: how many heights above the watermark are worked on at once. Nothing above is ever requested.',
  }),
  maxProcessing: optional(integer(1, 4096, 'heights'), {
    doc: 'Jobs (heights) in progress at once.',
    defaultDoc: 'window',
  }),
  workersPerHeight: setting(integer(1, 256, 'requests'), 8, {
    doc: 'Collection requests at once for one height.',
  }),
  maxInFlightBytes: setting(byteSize(MIB, 16 * GIB), 128 * MIB, {
    doc: 'Bytes of received collections that may wait for their commit. The lowest missing height is always admitted.',
  }),
  'proof.mode': setting(choice(['auto', 'required', 'off']), 'auto', {
    doc: 'Whether blocks are proven: their ids and guarantees are recomputed from what nodes send. auto: where the data of the network allow it; /status says where not. required: a block that cannot be proven is not indexed. off: nodes are asked for less, and believed (SECURITY.md).',
  }),
  'proof.finality': setting(choice(['reported', 'proven']), 'reported', {
    doc: 'Which blocks can be read. reported: those that nodes call finalized. proven: none above the height up to which certificates of the consensus nodes prove the chain final (`proof.provenHeight` of /status); after a start nothing until that height is found again, except with a database, which keeps it. Not with proof.mode off.',
  }),
  'proof.checkpoint': optional(block, {
    doc: 'A block that is known to be final, from a source that you trust: finality is proven from there on by the certificates of the consensus nodes, so that no access node has to be believed. Ends with exit code 76 where the stored block of this height has another id. One of the current spork is needed, at or above the first height.',
    defaultDoc: 'none: the nodes are believed once, for the first block',
  }),
  'edi.enabled': setting(boolean, true, {
    doc: 'Use the execution-data stream besides collection requests.',
    flag: 'edi',
  }),
  'edi.nodes': setting(list(endpoint, MAX_NODES), [], {
    doc: 'Nodes for the execution-data stream; repeat the flag for several.',
    defaultDoc: 'the access nodes',
    flag: 'edi-node',
  }),
  ediOnly: setting(boolean, false, {
    doc: 'Index from the execution-data stream only: never request a collection.',
  }),
  peers: setting(list(endpoint, MAX_NODES), [], {
    doc: 'Other indexers (their gRPC ports) to take collections from, so that the access nodes are asked for few; repeat the flag for several. Blocks and the head still come from the access nodes, unless those are `none`; what a peer sends is verified like everything else (docs/copies.md, An indexer feeds indexers).',
    defaultDoc: 'none',
    flag: 'peer',
  }),
  'access.sporkRoot': optional(integer(0, MAX_HEIGHT, 'height'), {
    doc: 'Root height of a spork that config/sporks.json lacks. Needed only if `/readyz` says so.',
  }),
  'access.metadataFile': optional(file, {
    doc: 'File with the metadata (headers) that nodes want with every call, such as `x-token`, `api_key` or `authorization`: one line `host:port name: value` for each, sent to that node alone. Read again when it changes (docs/tls-and-tokens.md, Metadata for access nodes).',
    defaultDoc: 'none: the nodes want nothing',
  }),
  'access.metadataWithoutTls': setting(boolean, false, {
    doc: 'Send such metadata also to nodes that are not called over TLS, where anyone on the way can read it. Without this, the daemon refuses to start.',
  }),
  'access.ratePerSecond': optional(integer(0, 100_000, 'calls'), {
    doc: 'Unary calls per second to each access node and method; 0 = no limit.',
    defaultDoc: '0; 80 if accessNodes is left at the network’s public node',
  }),
  'access.maxMessageBytes': setting(byteSize(4 * MIB, GIB), 128 * MIB, {
    doc: 'Larger answers from access nodes are refused.',
  }),
  'requester.concurrency': setting(integer(1, 1024, 'calls'), 32, {
    doc: 'Collection calls at once, per access node.',
  }),
  'requester.timeoutMs': setting(milliseconds(100, 600_000), 10_000, {
    doc: 'Deadline of calls for collections and transactions, in milliseconds; those for the head, blocks and who a node is have their own, of 3 to 8 s. A collection call is given up after 4,000 if another node or call has not been tried yet.',
  }),
  'requester.backoffMinMs': setting(milliseconds(1, 600_000), 250, {
    doc: "Shortest pause before a collection is requested again, in milliseconds. It doubles with each attempt. A new block's collection that the node has yet to fetch is retried sooner, a few times.",
  }),
  'requester.backoffMaxMs': setting(milliseconds(1, 600_000), 10_000, {
    doc: 'Longest pause before a collection is requested again, in milliseconds.',
  }),
  'requester.unresolvableAfterMs': setting(milliseconds(1_000, 86_400_000), 600_000, {
    doc: 'A height that no source completes within this time is reported as unresolvable (and still retried).',
  }),
  'backfill.plan': optional(heightsToFill, {
    doc: 'History to fill in below the live range while the live range follows the head: `FROM` or `FROM..TO`, where FROM is a height, `root` (of the live spork), `spork:NAME` (its root) or `everything`. Newest first. Heights that are planned or indexed already are not planned again (docs/scale-out.md).',
    flag: 'backfill',
  }),
  'backfill.parallelRanges': setting(integer(1, 64, 'ranges'), 4, {
    doc: 'Ranges of history that are filled at once.',
  }),
  'backfill.window': setting(integer(2, 1000, 'heights'), 64, {
    doc: 'How many heights of a range of history are worked on at once. At least 2: a block counts once its child is known.',
  }),
  'index.accounts': setting(boolean, false, {
    doc: 'Index the transactions of each account, by payer, proposer and authorizer. When switched on later, the index is built in the background from the store; when switched off, it is kept but not extended.',
  }),
  'scrub.bytesPerSecond': setting(byteSize(0, GIB), 2 * MIB, {
    doc: 'How many bytes of collections per second the running daemon verifies, over all stored heights, newest first, again and again. Damaged heights are fetched again (docs/operations.md, What is found, and when). 0 = never: then damage is found only when it is read, and by `verify`. With `store`, the process that leads does it.',
  }),
  'disk.minFreeBytes': setting(byteSize(0, 1024 * GIB), 512 * MIB, {
    doc: 'With less than this free on the disk of the data directory, indexing pauses (`disk_low`) and reads go on; once a quarter more is free, indexing continues by itself. The default leaves room for what LevelDB compacts at once. 0 = never: then a full disk ends the daemon (docs/operations.md, Before the disk is full).',
    isReloadable: true,
  }),
  'api.host': setting(host, '127.0.0.1', { doc: 'Listen address of the read API.' }),
  'api.port': setting(port, 7180, { doc: 'HTTP port of the read API (/status, /v1/…); 0 = any free port.' }),
  'api.grpcPort': setting(integerOr(port, ['off']), 7181, {
    doc: 'gRPC port of the read API (flow.access.AccessAPI), on the same address; 0 = any free port, `off` = no gRPC.',
  }),
  'api.forward': setting(boolean, false, {
    doc: 'Forward gRPC calls that the index cannot answer (headers, results, accounts, scripts, events, sending, …) to the access nodes (docs/grpc.md, Forwarding).',
  }),
  'api.forwardRest': optional(httpAddress, {
    doc: 'REST address of an access node, without `/v1`. Requests under /v1 that the index cannot answer are forwarded to it (docs/rest-api.md, Forwarding).',
    defaultDoc: 'none: such requests get 404',
  }),
  'api.store': optional(database, {
    doc: 'Database that readers use in place of `store`: a streaming replica of it; readers see what the replica has. One server, not a pool of several (docs/scale-out.md, Readers from a replica).',
    defaultDoc: 'none: `store`',
  }),
  'api.corsOrigins': setting(origins, ['*'], {
    doc: 'Origins whose web pages may use the read API, including forwarded requests and /v1/ws; repeat the flag for several. `*` = all, as access nodes do; `none` = no page (SECURITY.md, Exposure).',
    defaultDoc: '*',
    flag: 'api-cors-origin',
    isReloadable: true,
  }),
  'api.ratePerSecondPerAddress': setting(integer(0, 100_000, 'requests'), 0, {
    doc: 'Requests per second that one client address (IPv6: one /64) may send to the read API, counted separately for HTTP and gRPC; more get 429 or RESOURCE_EXHAUSTED. 0 = no limit. Set it when others can reach the API.',
    isReloadable: true,
  }),
  'api.maxConnections': setting(integer(1, 65_535, 'connections'), 512, {
    doc: 'Connections at once to each port of the read API, HTTP and gRPC; fewer where the limit of open files leaves fewer (docs/operations.md, Files that may be open). When all are taken, a new one takes the place of the one that has been without a request longest. When it is lowered, connections with a request stay.',
    isReloadable: true,
  }),
  'api.keepAliveMs': setting(milliseconds(1_000, 3_600_000), 75_000, {
    doc: 'How long an HTTP connection of a caller may stay open between two requests, in milliseconds. Keep it above the idle time of a balancer in front, which may otherwise send a request just as the daemon hangs up (docs/operations.md, Behind a proxy or balancer).',
  }),
  'api.tls.certificateFile': optional(file, {
    doc: 'Certificate of both ports of the read API, in PEM, followed by its chain; with it, they accept only TLS. Read again when it changes (docs/tls-and-tokens.md).',
    defaultDoc: 'none: plain text',
  }),
  'api.tls.keyFile': optional(file, {
    doc: 'Private key of that certificate, in PEM and without a passphrase.',
    defaultDoc: 'the file of the certificate',
  }),
  'api.tls.clientCaFile': optional(file, {
    doc: 'Certificate authorities, in PEM. A client certificate from one of them counts as a token.',
  }),
  'api.tokensFile': optional(file, {
    doc: 'File with the bearer tokens of the read API, one per line, each optionally followed by a name; `#` begins a comment. At least 16 characters each. Read again when it changes (docs/tls-and-tokens.md).',
    defaultDoc: 'none: anyone may call',
  }),
  'api.tokensFor': setting(choice(['everything', 'expensive']), 'everything', {
    doc: 'What needs a token or a client certificate, once any are configured: `everything`, or only what is `expensive`: streams, large answers, and forwarded calls (docs/tls-and-tokens.md has the list).',
  }),
  'metrics.host': setting(host, '127.0.0.1', { doc: 'Listen address of /metrics, /livez and /readyz.' }),
  'metrics.port': setting(port, 7182, { doc: 'Port of /metrics, /livez and /readyz; 0 = any free port.' }),
  'ready.maxLag': setting(integer(0, MAX_HEIGHT, 'heights'), 100, {
    doc: 'Heights behind the head that still count as ready.',
    isReloadable: true,
  }),
  'ready.maxHeadAgeSeconds': optional(integer(0, 86_400, 'seconds'), {
    doc: "Seconds the chain's head may stand still before the daemon is not ready (`head_stale`); 0 = no limit.",
    defaultDoc: '120 on mainnet and testnet, else 0',
    isReloadable: true,
  }),
  'log.level': setting(choice(['debug', 'info', 'warn', 'error']), 'info', {
    doc: 'Lowest level that is logged.',
    isReloadable: true,
  }),
  'log.format': optional(choice(['json', 'pretty']), {
    doc: 'One JSON object per line, or lines for people.',
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
