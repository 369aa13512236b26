import type { VNode } from 'preact';
import { count, many, percent, sentence } from './format.js';
import { Panel } from './parts.js';
import type { Status } from './daemon.js';

/** What each source of collections is doing, and how many it delivered first in the last hour. */
export function SourcesPanel({ status: { lastHour, sources } }: { readonly status: Status }): VNode {
  const { edi, peer, requester } = sources;
  const races = [lastHour.edi, lastHour.peer, lastHour.requester];
  const total = races.reduce((sum, { first }) => sum + first, 0);
  const late = races.reduce((sum, race) => sum + race.late, 0);
  const twice = late === 0 ? 'none came twice' : `${count(late)} came twice`;
  const share = (part: number): string => (part === 0 ? '' : `First for ${percent(part / total)}. `);
  const summary =
    total === 0
      ? 'No collection came in the last hour'
      : `${many(total, 'collection')} in the last hour; ${twice}`;
  return (
    <Panel title="Sources" summary={summary}>
      <dl class="sources">
        <dt>Execution data</dt>
        <dd>
          {share(lastHour.edi.first)}
          {streamWords(edi)}
        </dd>
        {peer.state === 'off' ? null : (
          <>
            <dt>Peer stream</dt>
            <dd>
              {share(lastHour.peer.first)}
              {streamWords(peer)}
            </dd>
          </>
        )}
        <dt>Requests</dt>
        <dd>
          {share(lastHour.requester.first)}
          {requesterWords(requester)}
        </dd>
      </dl>
    </Panel>
  );
}

function streamWords({ state, endpoint, height, reason }: Status['sources']['edi']): string {
  const from = endpoint === null ? '' : ` ${endpoint}`;
  const at = height === null ? '' : `, last height ${count(height)}`;
  const why = reason === null ? '.' : `: ${sentence(reason)}`;
  switch (state) {
    case 'off':
      return `Off${why}`;
    case 'connecting':
      return `Being connected${why}`;
    case 'following':
      return `Follows${from}${at}.`;
    case 'paused':
      return `Waits for the window${at}.`;
    case 'unavailable':
      return `Does not come${why}`;
  }
}

function requesterWords({ state, inFlight, missing }: Status['sources']['requester']): string {
  switch (state) {
    case 'off':
      return 'Off (ediOnly).';
    case 'idle':
      return 'Not needed now.';
    case 'waiting':
      return `Wait: ${many(missing, 'collection')} missing, and no call may be sent now.`;
    case 'asking':
      return `${many(inFlight, 'call')} in progress for ${many(missing, 'missing collection')}.`;
  }
}
