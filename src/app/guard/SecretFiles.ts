import { randomBytes } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { CallCredentials, Endpoint, SporkTable } from '../../access/index.js';
import { digestOf } from '../../api/index.js';
import type { ApiSecrets } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { Listeners, OperatorError, Pause } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { expiryOf, readCertificate } from './certificate.js';
import type { Certificate } from './certificate.js';
import { credentialsFor, knownNodes, readNodeMetadata } from './nodeMetadata.js';
import type { KnownNode, MetadataByNode } from './nodeMetadata.js';
import { readPeerToken, readTokens } from './tokens.js';
import type { KnownToken } from './tokens.js';

/** How often the files are checked; each check costs one stat. */
const LOOK_EVERY_MS = 5_000;
const OWN_TOKEN_BYTES = 32;
/** For a process without the role `api`. */
const NOTHING_SERVED = {
  tls: { certificateFile: undefined, clientCaFile: undefined, keyFile: undefined },
  tokensFile: undefined,
} as const;

interface Dependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'certificateExpires' | 'secretReloads'>;
}

type WatchDependencies = Pick<Dependencies, 'logger' | 'metrics'>;

/** How a secret is read from files. */
interface SecretSource<T> {
  readonly kind: 'certificate' | 'tokens' | 'peer_token' | 'node_metadata';
  readonly paths: readonly string[];
  /** Expected errors: OperatorError. */
  read(): T | Promise<T>;
  /** Differs for every content; not secret. */
  nameOf(value: T): string;
  /** Log fields about a new content; not secret. */
  describe(next: T, last: T): object;
}

/** How the commands of this machine reach a guarded API. */
export interface OwnAccess {
  /** SHA-256 of the certificate, in the form of `X509Certificate`. Absent: the port speaks plain text. */
  readonly certificate?: string;
  /** Valid for this run. Absent: none is needed. */
  readonly token?: string;
}

/** Opens what the configuration names. Expected errors: OperatorError `configuration`: what is wrong with which file. */
async function openSecrets(
  { access, api, peerTokenFile, roles }: DaemonConfig,
  nodes: readonly KnownNode[],
  dependencies: WatchDependencies,
) {
  const { tls, tokensFile } = roles.includes('api') ? api : NOTHING_SERVED;
  const { certificateFile, clientCaFile, keyFile } = tls;
  const { metadataFile } = access;
  const watched = <T>(
    path: string | undefined,
    source: (path: string) => SecretSource<T>,
  ): Promise<WatchedSecret<T>> | undefined =>
    path === undefined ? undefined : WatchedSecret.open(source(path), dependencies);
  return {
    certificate: await watched<Certificate>(certificateFile, (path) => ({
      kind: 'certificate',
      paths: [path, keyFile, clientCaFile].filter((each) => each !== undefined),
      read: () => readCertificate({ certificateFile: path, clientCaFile, keyFile }),
      nameOf: ({ identity }) => digestOf(JSON.stringify(identity)),
      describe: ({ leaf }) => ({ expires: expiryOf(leaf).toISOString() }),
    })),
    tokens: await watched<readonly KnownToken[]>(tokensFile, (path) => ({
      kind: 'tokens',
      paths: [path],
      read: () => readTokens(path),
      nameOf: (known) => known.map(({ digest }) => digest).join(),
      describe: (next, last) => ({
        tokens: next.length,
        added: namesLeft(next, last),
        removed: namesLeft(last, next),
      }),
    })),
    peerToken: await watched<string>(peerTokenFile, (path) => ({
      kind: 'peer_token',
      paths: [path],
      read: () => readPeerToken(path),
      nameOf: digestOf,
      describe: () => ({}),
    })),
    metadata: await watched<MetadataByNode>(metadataFile, (path) => ({
      kind: 'node_metadata',
      paths: [path],
      read: () => readNodeMetadata(path, { access, nodes }),
      nameOf: (byNode) => digestOf(JSON.stringify([...byNode])),
      describe: (byNode) => ({ nodes: [...byNode.keys()] }),
    })),
  };
}

/**
 * Certificate and tokens of the read API, the token for peers, and the metadata for nodes, from their files, for as long as
 * the daemon runs.
 */
export class SecretFiles {
  readonly #config: DaemonConfig;
  readonly #files: Awaited<ReturnType<typeof openSecrets>>;
  /** The nodes that may be called, by name. */
  readonly #known: ReadonlySet<string>;
  readonly #logger: Logger;
  readonly #metrics: Dependencies['metrics'];
  /** For commands of users who may read the data directory. */
  readonly #ownToken: string | undefined;
  readonly #changed = new Listeners();
  readonly #pause: Pause;
  #isReloadWanted = false;
  /** Nodes of the metadata file that the log has named as unknown. */
  #unknown = '';

  /** Expected errors: those of `openSecrets`. */
  static async open(
    config: DaemonConfig,
    { sporks, ...dependencies }: Dependencies & { readonly sporks: SporkTable },
  ): Promise<SecretFiles> {
    const nodes = config.access.metadataFile === undefined ? [] : knownNodes(config, sporks);
    const files = await openSecrets(config, nodes, dependencies);
    return new SecretFiles(config, { ...dependencies, files, known: new Set(nodes.map(({ name }) => name)) });
  }

  private constructor(
    config: DaemonConfig,
    {
      clock,
      files,
      known,
      logger,
      metrics,
    }: Dependencies & {
      readonly files: Awaited<ReturnType<typeof openSecrets>>;
      readonly known: ReadonlySet<string>;
    },
  ) {
    this.#config = config;
    this.#files = files;
    this.#known = known;
    this.#logger = logger;
    this.#metrics = metrics;
    this.#pause = new Pause({ clock });
    const isGuarded = files.tokens !== undefined || files.certificate?.value.identity.clientCa !== undefined;
    this.#ownToken = isGuarded ? randomBytes(OWN_TOKEN_BYTES).toString('base64url') : undefined;
    this.#taken();
  }

  /** The current certificate and tokens of the ports. */
  secrets(): ApiSecrets {
    const own = this.#ownToken === undefined ? [] : [digestOf(this.#ownToken)];
    const known = (this.#files.tokens?.value ?? []).map(({ digest }) => digest);
    return {
      tls: this.#files.certificate?.value.identity,
      tokens: this.#ownToken === undefined ? undefined : [...own, ...known],
      tokensFor: this.#config.api.tokensFor,
    };
  }

  /** What calls to a node carry. The token for peers is sent to peers only. */
  credentialsFor(endpoint: Endpoint, isPeer: boolean): CallCredentials {
    return credentialsFor(endpoint, isPeer, {
      metadata: () => this.#files.metadata?.value,
      metadataFile: this.#config.access.metadataFile,
      peerToken: () => this.#files.peerToken?.value,
    });
  }

  /** What forwarded calls to each node carry. */
  nodeMetadata(): MetadataByNode {
    return this.#files.metadata?.value ?? new Map();
  }

  ownAccess(): OwnAccess {
    const certificate = this.#files.certificate?.value.leaf.fingerprint256;
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

  /** Expected errors: the signal's abort reason. */
  async run(signal: AbortSignal): Promise<void> {
    const watched = Object.values(this.#files).filter((each) => each !== undefined);
    while (watched.length > 0) {
      if (!this.#isReloadWanted) await this.#pause.sleep(LOOK_EVERY_MS, signal);
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
    const leaf = this.#files.certificate?.value.leaf;
    if (leaf !== undefined) this.#metrics.certificateExpires.set(expiryOf(leaf).getTime() / 1_000);
  }
}

/** The names of the tokens that `others` lacks. */
function namesLeft(tokens: readonly KnownToken[], others: readonly KnownToken[]): readonly string[] {
  const gone = new Set(others.map(({ digest }) => digest));
  return tokens.filter(({ digest }) => !gone.has(digest)).map(({ name }) => name);
}

/** A secret that is read again when its files change. While they cannot be used, the previous content stays in use. */
class WatchedSecret<T> {
  #isRefused = false;
  /** The refusal that was logged last. */
  #logged: string | undefined;

  /** Expected errors: OperatorError. */
  static async open<T>(source: SecretSource<T>, dependencies: WatchDependencies): Promise<WatchedSecret<T>> {
    const stamp = await stampOf(source.paths);
    return new WatchedSecret(source, dependencies, stamp, await source.read());
  }

  readonly #source: SecretSource<T>;
  readonly #dependencies: WatchDependencies;
  #stamp: string;
  #value: T;

  private constructor(source: SecretSource<T>, dependencies: WatchDependencies, stamp: string, value: T) {
    this.#source = source;
    this.#dependencies = dependencies;
    this.#stamp = stamp;
    this.#value = value;
    for (const outcome of ['changed', 'refused'] as const)
      dependencies.metrics.secretReloads.inc({ secret: source.kind, outcome }, 0);
  }

  get value(): T {
    return this.#value;
  }

  /** Reads the files if they have changed or the operator asked for it. True: there is a new value. */
  async look({ isWanted }: { readonly isWanted: boolean }): Promise<boolean> {
    const { kind, paths } = this.#source;
    const stamp = await stampOf(paths);
    if (stamp === this.#stamp && !isWanted && !this.#isRefused) return false;
    let next: T;
    try {
      next = await this.#source.read();
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#refused(error.message, isWanted);
      return false;
    }
    const last = this.#value;
    this.#stamp = stamp;
    this.#isRefused = false;
    this.#logged = undefined;
    if (this.#source.nameOf(next) === this.#source.nameOf(last)) return false;
    this.#value = next;
    const { logger, metrics } = this.#dependencies;
    metrics.secretReloads.inc({ secret: kind, outcome: 'changed' });
    logger.info({ secret: kind, ...this.#source.describe(next, last) }, 'a secret has changed');
    return true;
  }

  /** Two files are replaced one after the other, so the first refusal may be half of a change and is not logged. */
  #refused(why: string, isWanted: boolean): void {
    const { logger, metrics } = this.#dependencies;
    metrics.secretReloads.inc({ secret: this.#source.kind, outcome: 'refused' });
    if ((this.#isRefused || isWanted) && this.#logged !== why) {
      this.#logged = why;
      const advice = 'fix the file; the daemon reads it again by itself';
      const fields = { secret: this.#source.kind, why, advice };
      logger.error(fields, 'a secret cannot be used: the one before stays in use');
    }
    this.#isRefused = true;
  }
}

/** Changes with every change of the files. */
async function stampOf(paths: readonly string[]): Promise<string> {
  const stamps = paths.map(async (path) => {
    try {
      const { ino, mtimeMs, size } = await stat(path);
      return `${ino} ${mtimeMs} ${size}`;
    } catch {
      return 'gone';
    }
  });
  return (await Promise.all(stamps)).join();
}
