import type { LoadedConfig } from '../../../config/index.js';
import { ok, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

/** Settings that expose a secret or switch off a safeguard. */
export function checkConfiguration({ config, effective, origins }: LoadedConfig): Finding[] {
  const { disk, scrub, store } = config;
  const found: Finding[] = [];
  if (store !== undefined && origins['store'] === 'flag' && hasPassword(store)) {
    found.push(
      warning(
        '--store contains a password, which every user of the machine can see; put it in PGPASSFILE or PGPASSWORD.',
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
        'A full disk will end the daemon, because --disk-min-free-bytes is 0; leave it out, so that indexing pauses in time.',
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
