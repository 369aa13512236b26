import type { VNode } from 'preact';
import { amount, bytes, duration, many } from '../format.js';
import { MinuteStrip } from '../parts/MinuteStrip.js';
import { Facts, Panel } from '../parts/Panel.js';
import type { Minute, Status } from '../types.js';

/** Commits: rate, size and duration. */
export function CommitsPanel({ status }: { readonly status: Status }): VNode {
  const { lastHour, throughput } = status;
  const slowest = Math.max(0.001, ...lastHour.map(commitSeconds));
  return (
    <Panel title="Writing" summary={summaryOf(throughput)}>
      <MinuteStrip
        label="Average time of a commit, minute by minute"
        minutes={lastHour}
        column={(minute) => column(minute, slowest)}
        hint={
          lastHour.some(({ commits }) => commits > 0)
            ? `Average time of a commit, minute by minute; the tallest column is ${duration(slowest)}.`
            : 'Nothing was written in the last hour.'
        }
      />
      <Facts items={factsOf(throughput)} />
    </Panel>
  );
}

function summaryOf(throughput: Status['throughput']): string {
  if (throughput === null) return 'Not measured yet';
  const { collectionsPerSecond, bytesPerSecond, heightsPerSecond } = throughput;
  return `${amount(collectionsPerSecond)} collections/s in ${amount(heightsPerSecond)} heights/s, ${bytes(bytesPerSecond)}/s`;
}

function factsOf(throughput: Status['throughput']): [string, string, string][] {
  if (throughput === null) return [];
  const { perSecond, heights, seconds, usualSeconds, bytes: size } = throughput.commits;
  if (heights === null || seconds === null || size === null)
    return [['Commits', 'none', 'in the last half minute']];
  return [
    ['Commits', `${amount(perSecond)}/s`, 'in the last half minute'],
    ['Size', `${amount(heights)} ${heights === 1 ? 'height' : 'heights'}`, `${bytes(size)} on average`],
    [
      'Time',
      duration(seconds),
      usualSeconds === null ? 'on average' : `on average; 95 of 100 within ${duration(usualSeconds)}`,
    ],
  ];
}

function commitSeconds({ commits, commitSeconds: seconds }: Minute): number {
  return commits === 0 ? 0 : seconds / commits;
}

function column(minute: Minute, slowest: number): { words: string; content: VNode } {
  const { commits, heights, bytes: size } = minute;
  const mean = commitSeconds(minute);
  const words =
    commits === 0
      ? 'no commit'
      : `${many(commits, 'commit')} of ${duration(mean)} on average; ${many(heights, 'height')}, ${bytes(size)}`;
  return {
    words,
    content: <span class="bar commit" style={{ '--tall': `${(mean / slowest) * 100}%` }} />,
  };
}
