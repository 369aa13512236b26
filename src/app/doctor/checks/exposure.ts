import type { X509Certificate } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { parseEndpoint } from '../../../access/index.js';
import { isLoopback } from '../../../api/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { OperatorError } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { expiryOf, readCertificate } from '../../guard/certificate.js';
import { readNodeMetadata } from '../../guard/nodeMetadata.js';
import type { KnownNode } from '../../guard/nodeMetadata.js';
import { readPeerToken, readTokens } from '../../guard/tokens.js';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

const DAY_MS = 86_400_000;
/** A certificate with less time left should have been renewed by now. */
const RENEW_DAYS = 14;
/** Permission bits: the group may write, others may read or write. */
const GROUP_WRITES_OTHERS_READ = 0o026;
const ALL_ADDRESSES: readonly string[] = ['0.0.0.0', '::'];

type Exposed = Pick<DaemonConfig, 'access' | 'api' | 'metrics' | 'peers' | 'peerTokenFile' | 'roles'>;

/** Who can reach the ports, what they may do, and whether certificates and tokens are usable. */
export async function checkExposure(
  config: Exposed,
  { clock, nodes }: { readonly clock: Pick<Clock, 'now'>; readonly nodes: readonly KnownNode[] },
): Promise<Finding[]> {
  const { api, metrics, roles } = config;
  const isServed = roles.includes('api');
  const found = [
    ...(isServed ? [...(await checkCertificate(api, clock)), ...(await checkTokens(api))] : []),
    ...(isServed && !isLoopback(api.host) ? openApi(api) : []),
    ...(await checkPeerToken(config)),
    ...(await checkNodeMetadata(config, nodes)),
  ];
  if (!isLoopback(metrics.host)) {
    found.push(
      warning(
        `/metrics and /readyz listen at ${metrics.host}, beyond this machine and always unencrypted, and name your nodes and their ` +
          'faults; let only your Prometheus reach them (firewall), or leave --metrics-host at 127.0.0.1.',
      ),
    );
  }
  return found.length === 0 ? [ok('Only this machine reaches the ports.')] : found;
}

/** Findings for an API that listens beyond this machine. */
function openApi(api: DaemonConfig['api']): Finding[] {
  const { corsOrigins, forward, forwardRest, host, ratePerSecondPerAddress, tls, tokensFile, tokensFor } =
    api;
  const who = `The API listens at ${host}, beyond this machine`;
  const asks = tokensFile !== undefined || tls.clientCaFile !== undefined;
  const forwards = forward || forwardRest !== undefined;
  const found: Finding[] = [];
  if (tls.certificateFile === undefined) {
    found.push(
      warning(
        `${who}, in the clear: anyone on the network path can ${tokensFile === undefined ? 'read and change the answers' : 'read the tokens'}; ` +
          'set --api-tls-certificate-file and --api-tls-key-file, or put a TLS proxy in front of it.',
      ),
    );
  }
  if (!asks) {
    found.push(
      warning(
        `${who}, without asking for a token; set --api-tokens-file ("openssl rand -hex 32" makes a token), or let a firewall decide ` +
          'who reaches it.',
      ),
    );
  }
  if (ratePerSecondPerAddress === 0 && !(asks && tokensFor === 'everything')) {
    found.push(
      warning(
        `${who}, without a limit per caller; set --api-rate-per-second-per-address, for example to 50, or put a proxy in front of it.`,
      ),
    );
  }
  if (forwards && !asks) {
    found.push(
      warning(
        `${who}, and forwards what it cannot answer: any caller can use your access nodes; set --api-tokens-file with ` +
          `--api-tokens-for expensive, or remove ${forward ? '--api-forward' : '--api-forward-rest'}.`,
      ),
    );
  }
  if (corsOrigins.includes('*') && !asks) {
    found.push(
      warning(
        `${who}, and web pages of every origin may use it; unless it is public, name your origins with --api-cors-origin, or none.`,
      ),
    );
  }
  return found.length === 0
    ? [ok(`The API listens at ${host}, beyond this machine, behind TLS and tokens.`)]
    : found;
}

async function checkCertificate(
  { host, tls }: DaemonConfig['api'],
  clock: Pick<Clock, 'now'>,
): Promise<Finding[]> {
  const { certificateFile, clientCaFile, keyFile = certificateFile } = tls;
  if (certificateFile === undefined || keyFile === undefined) return [];
  return orProblem(async () => {
    const { leaf } = readCertificate({ certificateFile, clientCaFile, keyFile });
    const open = await tooOpen(keyFile, 'the private key (api.tls.keyFile)');
    return [...open, validityOf(leaf, certificateFile, clock), ...placeOf(leaf, host, certificateFile)];
  });
}

function validityOf(leaf: X509Certificate, file: string, clock: Pick<Clock, 'now'>): Finding {
  const days = Math.floor((expiryOf(leaf).getTime() - clock.now()) / DAY_MS);
  const until = expiryOf(leaf).toISOString();
  const next = 'put a new one, and its key, into the same files; a running daemon reloads them by itself';
  if (days < 0) return problem('configuration', `The certificate in ${file} expired at ${until}; ${next}.`);
  if (new Date(leaf.validFrom).getTime() > clock.now())
    return problem(
      'configuration',
      `The certificate in ${file} is not valid before ${leaf.validFrom}; check the clock.`,
    );
  return days < RENEW_DAYS
    ? warning(`The certificate in ${file} expires in ${days} days, at ${until}; ${next}.`)
    : ok(`The certificate in ${file} is valid until ${until}.`);
}

/** Not checked for all addresses: the names by which callers reach them are unknown here. */
function placeOf(leaf: X509Certificate, host: string, file: string): Finding[] {
  if (ALL_ADDRESSES.includes(host) || isLoopback(host)) return [];
  const isFor = isIP(host) === 0 ? leaf.checkHost(host) : leaf.checkIP(host);
  if (isFor !== undefined) return [];
  const names = leaf.subjectAltName ?? 'no name';
  return [
    warning(
      `The certificate in ${file} is for ${names}, and not for ${host}; callers must use one of its names, or replace it.`,
    ),
  ];
}

async function checkTokens({ tokensFile }: DaemonConfig['api']): Promise<Finding[]> {
  if (tokensFile === undefined) return [];
  return orProblem(async () => {
    const tokens = readTokens(tokensFile);
    const open = await tooOpen(tokensFile, 'the tokens (api.tokensFile)');
    return [...open, ok(`${tokensFile} has ${tokens.length} token${tokens.length === 1 ? '' : 's'}.`)];
  });
}

async function checkPeerToken({ peers, peerTokenFile }: Exposed): Promise<Finding[]> {
  if (peerTokenFile === undefined) return [];
  const open = peers.map(parseEndpoint).filter(({ host, tls }) => !tls && !isLoopback(host));
  const inTheClear = open.map(({ name }) =>
    warning(
      `The token of ${peerTokenFile} goes to ${name} in the clear, and anyone on the network path can read it; write grpcs://${name}.`,
    ),
  );
  return orProblem(async () => {
    readPeerToken(peerTokenFile);
    return [...(await tooOpen(peerTokenFile, 'the token for peers (peerTokenFile)')), ...inTheClear];
  });
}

async function checkNodeMetadata({ access }: Exposed, nodes: readonly KnownNode[]): Promise<Finding[]> {
  const { metadataFile } = access;
  if (metadataFile === undefined) return [];
  return orProblem(async () => {
    const byNode = await readNodeMetadata(metadataFile, { access, nodes });
    const called = new Map(nodes.map((node) => [node.name, node]));
    const found = await tooOpen(metadataFile, 'the metadata for nodes (access.metadataFile)');
    for (const name of byNode.keys()) {
      const node = called.get(name);
      if (node === undefined)
        found.push(
          warning(`${metadataFile} has a line for ${name}, which no setting names; correct one of the two.`),
        );
      else if (!node.tls)
        found.push(
          warning(
            `What ${metadataFile} has for ${name} goes there in the clear, and anyone on the network path can read it; write grpcs://${name}.`,
          ),
        );
    }
    return [...found, ok(`${metadataFile} has metadata for ${[...byNode.keys()].join(', ')}.`)];
  });
}

/** Windows has no permission bits. */
async function tooOpen(path: string, what: string): Promise<Finding[]> {
  const mode = (await stat(path)).mode & 0o777;
  if (process.platform === 'win32' || (mode & GROUP_WRITES_OTHERS_READ) === 0) return [];
  return [
    warning(
      `${path}, which has ${what}, is open to other users of this machine (mode ${mode.toString(8)}); chmod 600 ${path}.`,
    ),
  ];
}

async function orProblem(look: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [problem(error.exit, error.message)];
  }
}
