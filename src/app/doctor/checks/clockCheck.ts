import type { NodeSurvey } from '../../../access/index.js';
import { formatDuration } from '../../../observability/index.js';
import { ok, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

/** A block of the future: its time is set by its proposer, whose clock may be off by as much. */
const AHEAD_MS = 3_000;
/** A public network has a block every second or so; by then one of the clocks is off, or the chain stands still. */
const BEHIND_MS = 60_000;

/**
 * Our clock beside the times of the nodes' newest blocks, which are those of many proposers. `isPublic`: the network makes blocks
 * all the time; elsewhere an old block only means that nothing happens.
 */
export function checkClock(
  surveys: readonly NodeSurvey[],
  { isPublic }: { readonly isPublic: boolean },
): Finding[] {
  const ages = surveys.flatMap(({ endpoint, head, headAskedAtMs }) =>
    head?.timestampMs === undefined || headAskedAtMs === undefined
      ? []
      : [{ name: endpoint.name, ageMs: headAskedAtMs - head.timestampMs }],
  );
  const [first, ...others] = ages;
  if (first === undefined)
    return [ok('No node told the time of a block, so the clock is compared with nothing.')];
  // The newest block is the best witness: others may be of nodes that lag.
  const newest = others.reduce((least, age) => (age.ageMs < least.ageMs ? age : least), first);
  const inWords = formatDuration(Math.abs(newest.ageMs) / 1000);
  if (newest.ageMs < -AHEAD_MS) {
    return [
      warning(
        `By the clock of this machine the newest block (${newest.name}) is ${inWords} in the future, so this clock is slow; ` +
          'have it set by NTP (timedatectl set-ntp true).',
      ),
    ];
  }
  if (isPublic && newest.ageMs > BEHIND_MS) {
    return [
      warning(
        `By the clock of this machine the newest block (${newest.name}) is ${inWords} old: either this clock is fast, and NTP should ` +
          'set it (timedatectl set-ntp true), or the chain stands still.',
      ),
    ];
  }
  if (newest.ageMs > BEHIND_MS)
    return [
      ok(
        `The newest block (${newest.name}) is ${inWords} old, which on this network tells nothing of the clock.`,
      ),
    ];
  const relation = newest.ageMs < 0 ? 'ahead of' : 'behind';
  const shown = Math.abs(newest.ageMs) < 1_000 ? 'less than a second' : inWords;
  return [ok(`The newest block (${newest.name}) is ${shown} ${relation} the clock of this machine.`)];
}
