import { randomBytes } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import type { CallCredentials, Endpoint, SporkTable } from '../../access/index.js';
import { digestOf, type ApiSecrets } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { Listeners, OperatorError, sleep, within, type Clock } from '../../runtime/index.js';
import { leafOf, readCertificate } from './certificate.js';
import { credentialsFor, knownNodes, readNodeMetadata, type MetadataByNode } from './nodeMetadata.js';
import { readTokens, type KnownToken } from './tokens.js';

/** How often the files are checked; each check costs one stat. */
const LOOK_EVERY_MS = 5_000;
const OWN_TOKEN_BYTES = 32;

export type SecretFiles = Awaited<ReturnType<typeof openSecretFiles>>;

/**
 * Certificate and tokens of the read API, and the metadata for nodes, from their files, for as long as the daemon runs.
 * Expected errors: OperatorError `configuration`: what is wrong with which file.
 */
export async function openSecretFiles(
  config: DaemonConfig,
  parts: Parameters<typeof watchSecret>[0] & { readonly clock: Clock; readonly sporks: SporkTable },
) {
  const { clock, logger, metrics } = parts;
  const { access, api } = config;
  const { tls, tokensFile } = api;
  const isServed = config.roles.includes('api');
  const { metadataFile } = access;
  const nodes = metadataFile === undefined ? [] : knownNodes(config, parts.sporks);

  const certificate = await ifNamed(isServed && tls.certificateFile, (file) =>
    watchSecret(parts, {
      kind: 'certificate',
      paths: [file, tls.keyFile, tls.clientCaFile].filter((each) => each !== undefined),
      read: () => readCertificate(file, tls),
      describe: (identity) => ({ expires: new Date(leafOf(identity).validTo).toISOString() }),
    }),
  );
  const tokens = await ifNamed(isServed && tokensFile, (file) =>
    watchSecret(parts, {
      kind: 'tokens',
      paths: [file],
      read: () => readTokens(file),
      describe: (next, last) => ({
        tokens: next.length,
        added: namesLeft(next, last),
        removed: namesLeft(last, next),
      }),
    }),
  );
  const metadata = await ifNamed(metadataFile, (file) =>
    watchSecret(parts, {
      kind: 'node_metadata',
      paths: [file],
      read: () => readNodeMetadata(file, { access, nodes }),
      describe: (byNode) => ({ nodes: [...byNode.keys()] }),
    }),
  );
  const files = [certificate, tokens, metadata].filter((each) => each !== undefined);

  const isGuarded = tokens !== undefined || certificate?.value().clientCa !== undefined;
  /** For commands of users who may read the data directory. */
  const ownToken = isGuarded ? randomBytes(OWN_TOKEN_BYTES).toString('base64url') : undefined;
  const changed = new Listeners();
  /** Nodes of the metadata file that were logged as unknown. */
  let loggedUnknown = '';
  /** The certificate that was logged as one that callers refuse. */
  let loggedInvalid: string | undefined;

  /** The metadata of calls to each node, forwarded ones included. */
  const nodeMetadata = (): MetadataByNode => metadata?.value() ?? new Map();
  const leaf = () => certificate && leafOf(certificate.value());
  /** Called when the current content of every file is in use. */
  const taken = (): void => {
    const known = new Set(nodes.map(({ name }) => name));
    const unknown = [...nodeMetadata().keys()].filter((name) => !known.has(name)).join();
    if (unknown !== '' && unknown !== loggedUnknown) {
      const advice = 'compare them with accessNodes, edi.nodes, peers and api.forwardRest';
      logger.warn({ nodes: unknown, advice }, 'access.metadataFile names nodes that are not called');
    }
    loggedUnknown = unknown;
    const own = leaf();
    if (own !== undefined) metrics.certificateExpires.set(Date.parse(own.validTo) / 1_000);
  };
  const checkDates = (): void => {
    const { fingerprint256, validFrom, validTo } = leaf() ?? {};
    const isValid = Date.parse(validFrom ?? '') <= clock.now() && clock.now() < Date.parse(validTo ?? '');
    const isLogged = fingerprint256 === loggedInvalid;
    loggedInvalid = isValid ? undefined : fingerprint256;
    if (isValid || isLogged) return;
    const advice = 'renew it, and check the clock of this machine; the daemon reads it again by itself';
    logger.warn({ validFrom, validTo, advice }, 'callers refuse the certificate: it is not valid now');
  };
  taken();
  checkDates();

  return {
    nodeMetadata,
    /** The current certificate and tokens of the ports. */
    secrets: (): ApiSecrets => {
      const digests = (tokens?.value() ?? []).map(({ digest }) => digest);
      return {
        tls: certificate?.value(),
        tokens: ownToken === undefined ? undefined : [digestOf(ownToken), ...digests],
        tokensFor: api.tokensFor,
      };
    },
    credentialsFor: (endpoint: Endpoint, isPeer: boolean): CallCredentials =>
      credentialsFor(endpoint, isPeer, metadataFile, nodeMetadata),
    ownAccess: () => ({ certificate: leaf()?.fingerprint256, token: ownToken }),
    onChange: (listener: () => void): void => void changed.add(listener),
    /** Expected errors: the signal's abort reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      while (files.length > 0) {
        await sleep(clock, LOOK_EVERY_MS, signal);
        checkDates();
        let hasChanged = false;
        for (const { look, paths } of files) {
          const looked = look();
          const fields = { paths, advice: 'look at the disk or mount that has them' };
          const isLate = (await within(clock, LOOK_EVERY_MS, looked)) === 'late';
          if (isLate) logger.error(fields, 'the files of a secret do not answer');
          hasChanged = (await looked) || hasChanged;
        }
        if (!hasChanged) continue;
        taken();
        changed.tell();
      }
    },
  };
}

/** Watches a file only if one is configured. */
function ifNamed<T>(file: string | false | undefined, watch: (file: string) => Promise<T>) {
  return file === undefined || file === false ? undefined : watch(file);
}

/** The names of the tokens that `others` lacks. */
function namesLeft(tokens: readonly KnownToken[], others: readonly KnownToken[]): readonly string[] {
  const gone = new Set(others.map(({ digest }) => digest));
  return tokens.filter(({ digest }) => !gone.has(digest)).map(({ name }) => name);
}

/**
 * A secret that is read again when its files change. While they are unusable, the previous content stays in use. Expected errors:
 * OperatorError.
 */
async function watchSecret<T>(
  parts: { readonly logger: Logger; readonly metrics: Pick<Metrics, 'certificateExpires' | 'secretReloads'> },
  source: {
    readonly kind: 'certificate' | 'tokens' | 'node_metadata';
    readonly paths: readonly string[];
    /** Expected errors: OperatorError. */
    readonly read: () => T;
    /** Log fields about a new content; not secret. */
    readonly describe: (next: T, last: T) => object;
  },
) {
  const { logger, metrics } = parts;
  const { kind, paths } = source;
  let stamp = await stampOf(paths);
  let value = source.read();
  let isRefused = false;
  /** The refusal that was logged last. */
  let logged: string | undefined;
  for (const outcome of ['changed', 'refused'] as const)
    metrics.secretReloads.inc({ secret: kind, outcome }, 0);

  /** Two files are replaced one after the other, so the first refusal may be half of a change and is not logged. */
  const refuse = (why: string): void => {
    metrics.secretReloads.inc({ secret: kind, outcome: 'refused' });
    if (isRefused && logged !== why) {
      logged = why;
      const advice = 'fix the file; the daemon reads it again by itself';
      logger.error({ secret: kind, why, advice }, 'a secret cannot be used: the one before stays in use');
    }
    isRefused = true;
  };
  return {
    paths,
    value: (): T => value,
    /** Reads the files if they have changed. True: there is a new value. */
    look: async (): Promise<boolean> => {
      const newStamp = await stampOf(paths);
      if (newStamp === stamp && !isRefused) return false;
      const last = value;
      try {
        value = source.read();
      } catch (error) {
        if (!(error instanceof OperatorError)) throw error;
        refuse(error.message);
        return false;
      }
      stamp = newStamp;
      isRefused = false;
      const isSame = isDeepStrictEqual(value, last);
      if (isSame && logged !== undefined)
        logger.info({ secret: kind }, 'a secret can be used again, and is the one in use');
      logged = undefined;
      if (isSame) return false;
      metrics.secretReloads.inc({ secret: kind, outcome: 'changed' });
      logger.info({ secret: kind, ...source.describe(value, last) }, 'a secret has changed');
      return true;
    },
  };
}

/**
 * A stamp that changes with the files. Checks one after the other: on a hanging mount each check holds one of the four threads of
 * Node.js's pool, and the store needs one.
 */
async function stampOf(paths: readonly string[]): Promise<string> {
  const stamps: string[] = [];
  for (const path of paths) {
    const about = await stat(path).catch(() => undefined);
    stamps.push(about === undefined ? 'gone' : `${about.ino} ${about.mtimeMs} ${about.size}`);
  }
  return stamps.join();
}
