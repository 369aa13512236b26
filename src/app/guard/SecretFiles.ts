import { randomBytes } from 'node:crypto';
import type { CallCredentials, Endpoint, SporkTable } from '../../access/index.js';
import { digestOf } from '../../api/index.js';
import type { ApiSecrets } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { Listeners, Pause } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { expiryOf, readCertificate } from './certificate.js';
import type { Certificate } from './certificate.js';
import { credentialsFor, knownNodes, readNodeMetadata } from './nodeMetadata.js';
import type { MetadataByNode } from './nodeMetadata.js';
import { readPeerToken, readTokens } from './tokens.js';
import type { KnownToken } from './tokens.js';
import { WatchedSecret } from './WatchedSecret.js';
import type { SecretSource } from './WatchedSecret.js';

/** How often the files are checked; each check costs one stat. */
const LOOK_EVERY_MS = 5_000;
const OWN_TOKEN_BYTES = 32;
/** For a process without the role `api`. */
const NOTHING_SERVED = {
  tls: { certificateFile: undefined, clientCaFile: undefined, keyFile: undefined },
  tokensFile: undefined,
  tokensFor: 'everything',
} as const;

export interface SecretFilesDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'certificateExpires' | 'secretReloads'>;
}

/** How the commands of this machine reach a guarded API. */
export interface OwnAccess {
  /** SHA-256 of the certificate, in the form of `X509Certificate`. Absent: the port speaks plain text. */
  readonly certificate?: string;
  /** Valid for this run. Absent: none is needed. */
  readonly token?: string;
}

/**
 * Certificate and tokens of the read API, the token for peers, and the metadata for nodes, from their files, for as long as
 * the daemon runs.
 */
export class SecretFiles {
  readonly #metrics: SecretFilesDependencies['metrics'];
  readonly #tokensFor: ApiSecrets['tokensFor'];
  readonly #certificate: WatchedSecret<Certificate> | undefined;
  readonly #tokens: WatchedSecret<readonly KnownToken[]> | undefined;
  readonly #peerToken: WatchedSecret<string> | undefined;
  readonly #metadata: WatchedSecret<MetadataByNode> | undefined;
  readonly #metadataFile: string | undefined;
  /** The nodes that may be called, by name. */
  readonly #known: ReadonlySet<string>;
  readonly #logger: Logger;
  /** For commands of users who may read the data directory. */
  readonly #ownToken: string | undefined;
  readonly #changed = new Listeners();
  readonly #pause: Pause;
  #isReloadWanted = false;
  /** Nodes of the metadata file that the log has named as unknown. */
  #unknown = '';

  /** Expected errors: OperatorError `configuration`: what is wrong with which file. */
  static async open(
    config: DaemonConfig,
    { sporks, ...dependencies }: SecretFilesDependencies & { readonly sporks: SporkTable },
  ): Promise<SecretFiles> {
    const { access, api, peerTokenFile, roles } = config;
    const { tls, tokensFile, tokensFor } = roles.includes('api') ? api : NOTHING_SERVED;
    const { certificateFile, clientCaFile, keyFile } = tls;
    const watched = <T>(
      path: string | undefined,
      source: (path: string) => SecretSource<T>,
    ): Promise<WatchedSecret<T>> | undefined =>
      path === undefined ? undefined : WatchedSecret.open(source(path), dependencies);
    const certificate = await watched<Certificate>(certificateFile, (path) => ({
      kind: 'certificate',
      paths: [path, keyFile, clientCaFile].filter((each) => each !== undefined),
      read: () => readCertificate({ certificateFile: path, clientCaFile, keyFile }),
      nameOf: ({ identity }) => digestOf(JSON.stringify(identity)),
      describe: ({ leaf }) => ({ expires: expiryOf(leaf).toISOString() }),
    }));
    const tokens = await watched<readonly KnownToken[]>(tokensFile, (path) => ({
      kind: 'tokens',
      paths: [path],
      read: () => readTokens(path),
      nameOf: (known) => known.map(({ digest }) => digest).join(),
      describe: (next, last) => ({
        tokens: next.length,
        added: namesLeft(next, last),
        removed: namesLeft(last, next),
      }),
    }));
    const peerToken = await watched<string>(peerTokenFile, (path) => ({
      kind: 'peer_token',
      paths: [path],
      read: () => readPeerToken(path),
      nameOf: digestOf,
      describe: () => ({}),
    }));
    const { metadataFile } = access;
    const nodes = metadataFile === undefined ? [] : knownNodes(config, sporks);
    const metadata = await watched<MetadataByNode>(metadataFile, (path) => ({
      kind: 'node_metadata',
      paths: [path],
      read: () => readNodeMetadata(path, { access, nodes }),
      nameOf: (byNode) => digestOf(JSON.stringify([...byNode])),
      describe: (byNode) => ({ nodes: [...byNode.keys()] }),
    }));
    const known = new Set(nodes.map(({ name }) => name));
    return new SecretFiles(
      { certificate, peerToken, tokens, tokensFor, metadata, metadataFile, known },
      dependencies,
    );
  }

  private constructor(
    files: {
      readonly certificate: WatchedSecret<Certificate> | undefined;
      readonly tokens: WatchedSecret<readonly KnownToken[]> | undefined;
      readonly peerToken: WatchedSecret<string> | undefined;
      readonly tokensFor: ApiSecrets['tokensFor'];
      readonly metadata: WatchedSecret<MetadataByNode> | undefined;
      readonly metadataFile: string | undefined;
      readonly known: ReadonlySet<string>;
    },
    { clock, logger, metrics }: SecretFilesDependencies,
  ) {
    this.#metadata = files.metadata;
    this.#metadataFile = files.metadataFile;
    this.#known = files.known;
    this.#logger = logger;
    this.#pause = new Pause({ clock });
    this.#metrics = metrics;
    this.#certificate = files.certificate;
    this.#tokens = files.tokens;
    this.#peerToken = files.peerToken;
    this.#tokensFor = files.tokensFor;
    const isGuarded = files.tokens !== undefined || files.certificate?.value.identity.clientCa !== undefined;
    this.#ownToken = isGuarded ? randomBytes(OWN_TOKEN_BYTES).toString('base64url') : undefined;
    this.#taken();
  }

  /** The current certificate and tokens of the ports. */
  secrets(): ApiSecrets {
    const own = this.#ownToken === undefined ? [] : [digestOf(this.#ownToken)];
    const known = (this.#tokens?.value ?? []).map(({ digest }) => digest);
    return {
      tls: this.#certificate?.value.identity,
      tokens: this.#ownToken === undefined ? undefined : [...own, ...known],
      tokensFor: this.#tokensFor,
    };
  }

  /** What calls to a node carry. The token for peers is sent to peers only. */
  credentialsFor(endpoint: Endpoint, isPeer: boolean): CallCredentials {
    return credentialsFor(endpoint, isPeer, {
      metadata: () => this.#metadata?.value,
      metadataFile: this.#metadataFile,
      peerToken: () => this.#peerToken?.value,
    });
  }

  /** What forwarded calls to each node carry. */
  nodeMetadata(): MetadataByNode {
    return this.#metadata?.value ?? new Map();
  }

  ownAccess(): OwnAccess {
    const certificate = this.#certificate?.value.leaf.fingerprint256;
    return {
      ...(certificate === undefined ? {} : { certificate }),
      ...(this.#ownToken === undefined ? {} : { token: this.#ownToken }),
    };
  }

  onChange(listener: () => void): void {
    this.#changed.add(listener);
  }

  /** Reads the files again soon, and logs each that cannot be used. */
  reload(): void {
    this.#isReloadWanted = true;
    this.#pause.wake();
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const watched = [this.#certificate, this.#tokens, this.#peerToken, this.#metadata].filter(
      (each) => each !== undefined,
    );
    while (watched.length > 0) {
      if (!this.#isReloadWanted) await this.#pause.sleep(LOOK_EVERY_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      const isWanted = this.#isReloadWanted;
      this.#isReloadWanted = false;
      let hasChanged = false;
      for (const each of watched) hasChanged = (await each.look({ isWanted })) || hasChanged;
      if (!hasChanged) continue;
      this.#taken();
      this.#changed.tell();
    }
  }

  /** Every file is in use now as it is. */
  #taken(): void {
    const unknown = [...this.nodeMetadata().keys()].filter((name) => !this.#known.has(name)).join();
    if (unknown !== '' && unknown !== this.#unknown) {
      const advice = 'compare them with accessNodes, edi.nodes, peers and api.forwardRest';
      this.#logger.warn({ nodes: unknown, advice }, 'access.metadataFile names nodes that are not called');
    }
    this.#unknown = unknown;
    const leaf = this.#certificate?.value.leaf;
    if (leaf !== undefined) this.#metrics.certificateExpires.set(expiryOf(leaf).getTime() / 1_000);
  }
}

/** The names of the tokens that `others` lacks. */
function namesLeft(tokens: readonly KnownToken[], others: readonly KnownToken[]): readonly string[] {
  const gone = new Set(others.map(({ digest }) => digest));
  return tokens.filter(({ digest }) => !gone.has(digest)).map(({ name }) => name);
}
