import { stat } from 'node:fs/promises';
import { isLoopback } from '../../api/index.js';
import type { DaemonConfig, LoadedConfig } from '../../config/index.js';
import { inShell, type Clock } from '../../runtime/index.js';
import { leafOf, readCertificate } from '../guard/certificate.js';
import { runningDaemon } from '../lifecycle/daemonRecord.js';
import { ok, problem, those, warning, type Finding } from './verdicts.js';

const DAY_MS = 86_400_000;
/** A certificate with less time left should have been renewed by now. */
const RENEW_DAYS = 14;
/** Permission bits: the group may write, others may read or write. */
const GROUP_WRITES_OTHERS_READ = 0o026;

/** Who can reach the ports and what they may do, what is sent in the clear, and who else can read the secrets. */
export async function checkExposure({
  config,
  origins,
}: Pick<LoadedConfig, 'config' | 'origins'>): Promise<Finding[]> {
  const { access, api, dataDir, metrics, roles, store } = config;
  const isServed = roles.includes('api');
  const ofReaders = isServed ? [api.tls.keyFile ?? api.tls.certificateFile, api.tokensFile] : [];
  const running = (await runningDaemon(dataDir))?.api;
  const isSecured = running?.certificate !== undefined;
  const found = those(
    running !== undefined &&
      (running.host !== api.host || isSecured !== (api.tls.certificateFile !== undefined)) &&
      warning(
        `The daemon that runs listens at ${running.host}${isSecured ? ', over TLS' : ''}: its settings differ from those checked here; ` +
          'give doctor the flags, the environment and the --config of its start.',
      ),
    ...(isServed && !isLoopback(api.host) ? openApi(api) : []),
    ...(await Promise.all([...ofReaders, access.metadataFile].map((path) => tooOpen(path)))),
    !isLoopback(metrics.host) &&
      warning(
        `/metrics and /readyz listen at ${metrics.host}, beyond this machine and always unencrypted, and name your nodes and their ` +
          'faults; let only your Prometheus reach them (firewall), or leave --metrics-host at 127.0.0.1.',
      ),
    store !== undefined &&
      origins['store'] === 'flag' &&
      URL.canParse(store) &&
      new URL(store).password !== '' &&
      warning(
        '--store contains a password, which every user of the machine can see; put it in PGPASSFILE or PGPASSWORD.',
      ),
  );
  return found.length === 0 ? [ok('Only callers that you let in reach the ports.')] : found;
}

/** Findings for an API that listens beyond this machine. */
function openApi(api: DaemonConfig['api']): Finding[] {
  const { corsOrigins, forward, forwardRest, host, ratePerSecondPerAddress, tls, tokensFile, tokensFor } =
    api;
  const asks = tokensFile !== undefined || tls.clientCaFile !== undefined;
  const where = (isSo: boolean, words: string) =>
    isSo && warning(`The API listens at ${host}, beyond this machine, ${words}.`);
  const readers = tokensFile === undefined ? 'read and change the answers' : 'read the tokens';
  return those(
    where(
      tls.certificateFile === undefined,
      `in the clear: anyone on the network path can ${readers}; set --api-tls-certificate-file and --api-tls-key-file, or put a ` +
        'TLS proxy in front of it',
    ),
    where(
      !asks,
      'without asking for a token; set --api-tokens-file ("openssl rand -hex 32" makes a token), or let a firewall decide who reaches it',
    ),
    where(
      ratePerSecondPerAddress === 0 && !(asks && tokensFor === 'everything'),
      'without a limit per caller; set --api-rate-per-second-per-address, for example to 50, or put a proxy in front of it',
    ),
    where(
      (forward || forwardRest !== undefined) && !asks,
      'and forwards what it cannot answer: any caller can use your access nodes; set --api-tokens-file with ' +
        `--api-tokens-for expensive, or remove ${forward ? '--api-forward' : '--api-forward-rest'}`,
    ),
    where(
      corsOrigins.includes('*') && !asks,
      'and web pages of every origin may use it; unless it is public, name your origins with --api-cors-origin, or none',
    ),
  );
}

/** Expected errors: `OperatorError` of a certificate that cannot be used. */
export function checkCertificate(
  { api, roles }: Pick<DaemonConfig, 'api' | 'roles'>,
  clock: Pick<Clock, 'now'>,
): Finding[] {
  const { certificateFile, clientCaFile, keyFile = certificateFile } = api.tls;
  if (!roles.includes('api') || certificateFile === undefined || keyFile === undefined) return [];
  const leaf = leafOf(readCertificate(certificateFile, { clientCaFile, keyFile }));
  const days = Math.floor((Date.parse(leaf.validTo) - clock.now()) / DAY_MS);
  const until = new Date(leaf.validTo).toISOString();
  const next = 'put a new one, and its key, into the same files; a running daemon reloads them';
  const what = `The certificate in ${certificateFile}`;
  const isEarly = Date.parse(leaf.validFrom) > clock.now();
  if (isEarly || days < 0) {
    const when = isEarly ? `is valid only from ${leaf.validFrom} on` : `expired at ${until}`;
    return [problem('configuration', `${what} ${when}; check the clock of this machine, or ${next}.`)];
  }
  const expires = `${what} expires in ${days} days, at ${until}; ${next}.`;
  return [days < RENEW_DAYS ? warning(expires) : ok(`${what} is valid until ${until}.`)];
}

/** Windows has no permission bits, and `start` reports a missing file. */
async function tooOpen(path: string | undefined): Promise<Finding | undefined> {
  if (path === undefined || process.platform === 'win32') return undefined;
  const mode = ((await stat(path).catch(() => undefined))?.mode ?? 0) & 0o777;
  if ((mode & GROUP_WRITES_OTHERS_READ) === 0) return undefined;
  return warning(
    `${path}, which has a secret, is open to other users of this machine (mode ${mode.toString(8)}); chmod 600 ${inShell(path)}.`,
  );
}
