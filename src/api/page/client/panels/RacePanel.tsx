import type { VNode } from 'preact';
import { count, many, percent } from '../format.js';
import { MinuteStrip } from '../parts/MinuteStrip.js';
import { Legend, Panel } from '../parts/Panel.js';
import { sentence } from '../sentence.js';
import type { Minute, Status } from '../types.js';

/** The race of the sources: which one delivered collections first, by minute. */
export function RacePanel({ status }: { readonly status: Status }): VNode {
  const { lastHour, sources } = status;
  const most = Math.max(0, ...lastHour.map(firstOf));
  const hasPeers = sources.peer.state !== 'off';
  return (
    <Panel title="Race of the sources, last hour" summary={summaryOf(lastHour)}>
      <MinuteStrip
        label="Collections by the source that delivered them first, minute by minute"
        minutes={lastHour}
        column={(minute) => column(minute, most)}
        hint={
          most === 0
            ? 'Nothing came in the last hour.'
            : `Collections minute by minute; the tallest column is ${count(most)}.`
        }
      >
        <Legend
          items={[
            ['edi', 'execution data first'],
            ['requester', 'requests first'],
            ...(hasPeers ? [['peer', 'a peer first'] as const] : []),
          ]}
        />
      </MinuteStrip>
      <ul class="sources">
        <li>
          <strong>Execution data</strong> {streamWords(sources.edi)}
        </li>
        {hasPeers && (
          <li>
            <strong>The peer stream</strong> {streamWords(sources.peer)}
          </li>
        )}
        <li>
          <strong>Requests</strong> {requesterWords(sources.requester)}
        </li>
      </ul>
    </Panel>
  );
}

function summaryOf(minutes: readonly Minute[]): string {
  const sum = (of: (minute: Minute) => number): number =>
    minutes.reduce((total, minute) => total + of(minute), 0);
  const [total, late] = [sum(firstOf), sum(lateOf)];
  if (total === 0) return 'No collection came in the last hour';
  const twice = late === 0 ? 'none came twice' : `${count(late)} came twice`;
  const won = {
    'Execution data': sum(({ edi }) => edi.first),
    Requests: sum(({ requester }) => requester.first),
    'The peer stream': sum(({ peer }) => peer.first),
  };
  const [winner, most] = Object.entries(won).reduce((best, each) => (each[1] > best[1] ? each : best));
  return `${winner} won ${percent(most / total)} of ${count(total)} collections; ${twice}`;
}

function firstOf({ edi, peer, requester }: Minute): number {
  return edi.first + peer.first + requester.first;
}

function lateOf({ edi, peer, requester }: Minute): number {
  return edi.late + peer.late + requester.late;
}

function column(minute: Minute, most: number): { words: string; content: VNode } {
  const { edi, peer, requester } = minute;
  const share = (part: number): Record<string, string> => ({
    '--tall': `${(part / Math.max(1, most)) * 100}%`,
  });
  return {
    words:
      `${many(firstOf(minute), 'collection')}; execution data first ${count(edi.first)}, requests first ` +
      `${count(requester.first)}${peer.first === 0 ? '' : `, a peer first ${count(peer.first)}`}; ${count(lateOf(minute))} came twice`,
    content: (
      <>
        <span class="bar requester" style={share(requester.first)} />
        <span class="bar edi" style={share(edi.first)} />
        {peer.first > 0 && <span class="bar peer" style={share(peer.first)} />}
      </>
    ),
  };
}

function streamWords({ state, endpoint, height, reason }: Status['sources']['edi']): string {
  const from = endpoint === null ? '' : ` ${endpoint}`;
  const at = height === null ? '' : `, last height ${count(height)}`;
  const why = reason === null ? '' : `: ${sentence(reason)}`;
  switch (state) {
    case 'off':
      return `is off${why}`;
    case 'connecting':
      return `is being connected${why}`;
    case 'following':
      return `follows${from}${at}`;
    case 'paused':
      return `waits for the window${at}`;
    case 'unavailable':
      return `does not come${why}`;
  }
}

function requesterWords({ state, inFlight, missing }: Status['sources']['requester']): string {
  switch (state) {
    case 'off':
      return 'are off (ediOnly)';
    case 'idle':
      return 'are not needed now';
    case 'waiting':
      return `wait: ${many(missing, 'collection')} missing, and no call may be sent now`;
    case 'asking':
      return `${many(inFlight, 'call')} in progress for ${many(missing, 'missing collection')}`;
  }
}
