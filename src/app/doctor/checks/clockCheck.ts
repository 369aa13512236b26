import type { NodeSurvey } from '../../../access/index.js';
import { formatDuration } from '../../../observability/index.js';
import { ok, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

/** The clock of a block's proposer may be ahead by this much. */
const AHEAD_MS = 3_000;
/** A public network has a block every second or so; an older newest block means a wrong clock, or a halted chain. */
const BEHIND_MS = 60_000;

/**
 * Compares our clock with the timestamps of the nodes' newest blocks. `isPublic`: the network makes blocks all the time;
 * elsewhere an old block only means that nothing happens.
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
  if (first === undefined) return [ok('No node gave the time of a block, so the clock was not checked.')];
  // The newest block: others may come from nodes that lag.
  const newest = others.reduce((least, age) => (age.ageMs < least.ageMs ? age : least), first);
  const inWords = formatDuration(Math.abs(newest.ageMs) / 1000);
  if (newest.ageMs < -AHEAD_MS) {
    return [
      warning(
        `By the clock of this machine the newest block (${newest.name}) is ${inWords} in the future, so this clock is slow; ` +
          'synchronize it with NTP (timedatectl set-ntp true).',
      ),
    ];
  }
  if (isPublic && newest.ageMs > BEHIND_MS) {
    return [
      warning(
        `By the clock of this machine the newest block (${newest.name}) is ${inWords} old: either the chain has halted, or this clock ` +
          'is fast; synchronize it with NTP (timedatectl set-ntp true).',
      ),
    ];
  }
  if (newest.ageMs > BEHIND_MS)
    return [
      ok(
        `The newest block (${newest.name}) is ${inWords} old, which on this network says nothing about the clock.`,
      ),
    ];
  const relation = newest.ageMs < 0 ? 'ahead of' : 'behind';
  const shown = Math.abs(newest.ageMs) < 1_000 ? 'less than a second' : inWords;
  return [ok(`The newest block (${newest.name}) is ${shown} ${relation} the clock of this machine.`)];
}
