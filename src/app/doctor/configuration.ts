import { isLoopback } from '../../api/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { ok, warning } from './verdicts.js';
import type { Finding } from './verdicts.js';

/** What the configuration exposes, and what it leaves undone. */
export function checkConfiguration({ config, effective, origins }: LoadedConfig): Finding[] {
  const { api, disk, metrics, roles, scrub, store } = config;
  const found: Finding[] = [];
  if (roles.includes('api') && !isLoopback(api.host)) {
    const who = `The API listens at ${api.host}, beyond this machine`;
    if (api.ratePerSecondPerAddress === 0) {
      found.push(
        warning(
          `${who}, without a limit for one caller; set --api-rate-per-second-per-address, such as 50, or put a proxy before it.`,
        ),
      );
    }
    if (api.forward || api.forwardRest !== undefined) {
      found.push(
        warning(
          `${who}, and forwards what it cannot answer: whoever reaches it uses your access nodes; close it with a firewall, or drop ` +
            `${api.forward ? '--api-forward' : '--api-forward-rest'}.`,
        ),
      );
    }
  }
  if (!isLoopback(metrics.host)) {
    found.push(
      warning(
        `/metrics and /readyz listen at ${metrics.host}, beyond this machine, and name your nodes and their faults; let only your ` +
          'Prometheus reach them (firewall), or leave --metrics-host at 127.0.0.1.',
      ),
    );
  }
  if (store !== undefined && origins['store'] === 'flag' && hasPassword(store)) {
    found.push(
      warning(
        '--store holds a password, which every user of the machine can see; leave it to PGPASSFILE or PGPASSWORD.',
      ),
    );
  }
  if (store === undefined && scrub.bytesPerSecond === 0) {
    found.push(
      warning(
        'Old tables are never checked while the daemon runs; leave out --scrub-bytes-per-second 0, or run "verify" now and then.',
      ),
    );
  }
  if (store === undefined && disk.minFreeBytes === 0) {
    found.push(
      warning(
        'A full disk will end the daemon, as --disk-min-free-bytes is 0; leave it out, and indexing pauses in time.',
      ),
    );
  }
  if (config.debug.profile) {
    found.push(
      warning(
        '/debug/profile is served, to this machine only, and slows the daemon while it is used; drop --debug-profile when done.',
      ),
    );
  }
  const set = Object.keys(effective).filter((key) => origins[key] !== 'default').length;
  return [
    ...found,
    ok(`The configuration is valid; ${set} of ${Object.keys(effective).length} keys are set.`),
  ];
}

function hasPassword(url: string): boolean {
  return URL.canParse(url) && new URL(url).password !== '';
}
