import { Fragment, type VNode } from 'preact';
import { count, many, percent, sentence } from './format.js';
import { Panel } from './parts.js';
import type { Status } from './daemon.js';

/** What each source of collections is doing, and how many it delivered first in the last hour. */
export function SourcesPanel({ status: { lastHour, sources } }: { readonly status: Status }): VNode {
  const { edi, peer, requester } = sources;
  const rows = [
    { name: 'Execution data', race: lastHour.edi, words: streamWords(edi) },
    ...(peer.state === 'off' ? [] : [{ name: 'Peer stream', race: lastHour.peer, words: streamWords(peer) }]),
    { name: 'Requests', race: lastHour.requester, words: requesterWords(requester) },
  ];
  const total = rows.reduce((sum, { race }) => sum + race.first, 0);
  const late = rows.reduce((sum, { race }) => sum + race.late, 0);
  const twice = late === 0 ? 'none came twice' : `${count(late)} came twice`;
  const summary =
    total === 0
      ? 'No collection came in the last hour'
      : `${many(total, 'collection')} in the last hour; ${twice}`;
  return (
    <Panel title="Sources" summary={summary}>
      <dl class="sources">
        {rows.map(({ name, race: { first }, words }) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>
              {first === 0 ? '' : `First for ${percent(first / total)}. `}
              {words}
            </dd>
          </Fragment>
        ))}
      </dl>
    </Panel>
  );
}

function streamWords({ state, endpoint, height, reason }: Status['sources']['edi']): string {
  const from = endpoint === null ? '' : ` ${endpoint}`;
  const at = height === null ? '' : `, last height ${count(height)}`;
  const why = reason === null ? '.' : `: ${sentence(reason)}`;
  return {
    off: `Off${why}`,
    connecting: `Being connected${why}`,
    following: `Follows${from}${at}.`,
    paused: `Waits for the window${at}.`,
    unavailable: `Does not come${why}`,
  }[state];
}

function requesterWords({ state, inFlight, missing }: Status['sources']['requester']): string {
  return {
    off: 'Off (ediOnly).',
    idle: 'Not needed now.',
    waiting: `Wait: ${many(missing, 'collection')} missing, and no call may be sent now.`,
    asking: `${many(inFlight, 'call')} in progress for ${many(missing, 'missing collection')}.`,
  }[state];
}
