import type { DaemonConfig } from '../../../config/index.js';
import {
  descriptorShares,
  fewestDescriptors,
  isEnough,
  plentyOfDescriptors,
} from '../../lifecycle/descriptorShares.js';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

/** Limits that the system sets for the process. `files`: how many may be open; `Infinity`: any number, or it does not say. */
export function checkLimits(config: DaemonConfig, files: number): Finding[] {
  const [fewest, plenty] = [fewestDescriptors(config), plentyOfDescriptors(config)];
  const advice = `raise the limit to ${plenty} (ulimit -n ${plenty}, or LimitNOFILE=${plenty} of the systemd unit).`;
  if (files < fewest)
    return [
      problem(
        'configuration',
        `Only ${files} files may be open, but the daemon needs ${fewest} to start: ${advice}`,
      ),
    ];
  const { maxConnections } = config.api;
  if (!isEnough(config, files)) {
    const { perPort } = descriptorShares(config, files);
    return [
      warning(
        `${files} files may be open, so each port of the read API takes ${perPort} connections and not the ${maxConnections} of api.maxConnections: ${advice}`,
      ),
    ];
  }
  const many = files === Infinity ? 'Any number of' : String(files);
  return [ok(`${many} files may be open, enough for ${maxConnections} connections to each port.`)];
}
