import type { VNode } from 'preact';
import { age, amount, count, duration, many, momentIn, percent, sentence } from './format.js';
import { Facts, Panel } from './parts.js';
import type { Endpoint, Status } from './daemon.js';

const STATES: Readonly<Record<Endpoint['state'], readonly [words: string, look: string]>> = {
  healthy: ['healthy', 'ok'],
  failing: ['failing', 'warn'],
  set_aside: ['set aside', 'bad'],
  foreign: ['foreign: left out', 'bad'],
  unknown: ['no answer yet', 'unknown'],
};

/** Each access node with its state and its troubles. */
export function NodesPanel({ status: { endpoints } }: { readonly status: Status }): VNode {
  const from = (wanted: Endpoint['origin']): readonly Endpoint[] =>
    endpoints.filter(({ origin }) => origin === wanted);
  const [configured, historic, peers] = [from('configured'), from('historic'), from('peer')];
  const healthy = configured.filter(({ state, calls }) => state === 'healthy' && calls.length === 0).length;
  return (
    <Panel title="Access nodes" summary={`${count(healthy)} of ${count(configured.length)} healthy`}>
      <Cards nodes={configured} />
      {peers.length === 0 ? null : (
        <>
          <h3>Peers, which give collections and nothing else</h3>
          <Cards nodes={peers} />
        </>
      )}
      {historic.length === 0 ? null : (
        <details>
          <summary>{many(historic.length, 'node')} of earlier sporks</summary>
          <Cards nodes={historic} />
        </details>
      )}
    </Panel>
  );
}

function Cards({ nodes }: { readonly nodes: readonly Endpoint[] }): VNode {
  return (
    <ul class="cards">
      {nodes.map((node) => (
        <Node key={node.name} node={node} />
      ))}
    </ul>
  );
}

function Node({ node }: { readonly node: Endpoint }): VNode {
  const { name, version, lowestHeight } = node;
  const [words, look] = standingOf(node);
  const from = lowestHeight === null ? '' : `from height ${count(lowestHeight)}`;
  const about = [version === null ? '' : `version ${version}`, from].filter((text) => text !== '');
  return (
    <li class="card">
      <p class="title">
        <strong class="long">{name}</strong>
        <span class={`pill ${look}`}>{words}</span>
      </p>
      <p class="dim long">{about.length === 0 ? 'It has not identified itself.' : about.join(', ')}</p>
      <Facts items={factsOf(node)} />
      <Troubles node={node} />
    </li>
  );
}

/** A healthy node may have an unhealthy call, or may not have answered since the start. */
function standingOf({ state, reason, calls }: Endpoint): readonly [words: string, look: string] {
  if (state === 'unknown' && reason !== null) return ['no sound answer yet', 'warn'];
  if (state !== 'healthy' || calls.length === 0) return STATES[state];
  return [`${many(calls.length, 'call')} not healthy`, 'warn'];
}

function factsOf(node: Endpoint): [string, string, string?][] {
  const { latencySeconds, callsPerSecond, inFlight, lastHour } = node;
  const { calls, errors } = lastHour;
  return [
    ['Latency', latencySeconds === null ? 'none yet' : duration(latencySeconds)],
    ['Calls', `${amount(callsPerSecond)}/s`, `${count(inFlight)} in progress`],
    [
      'Errors, last hour',
      errors === 0 ? 'none' : `${count(errors)} (${percent(errors / Math.max(calls, errors))})`,
      errorKinds(node),
    ],
    ['Rate limit', ...limitOf(node)],
  ];
}

function errorKinds({ lastHour: { kinds, calls } }: Endpoint): string {
  if (kinds.length === 0) return `of ${many(calls, 'call')}`;
  return [...kinds]
    .sort((a, b) => b.count - a.count)
    .map(({ kind, count: times }) => `${count(times)} ${kind.replaceAll('_', ' ')}`)
    .join(', ');
}

/** Its tightest limit, and the reason for it. */
function limitOf({ limits }: Endpoint): [string, string] {
  if (limits.length === 0) return ['none', ''];
  const rate = Math.min(...limits.map(({ ratePerSecond }) => ratePerSecond ?? Infinity));
  const why = limits.some(({ isLearned }) => isLearned) ? 'learned from its answers' : 'as configured';
  return [Number.isFinite(rate) ? `${amount(rate)}/s` : 'paused', why];
}

/** Why it is set aside or failing, since when, and until when. */
function Troubles({ node }: { readonly node: Endpoint }): VNode | null {
  const { reason, sinceSeconds, endsInSeconds } = node;
  // A false answer counts against the call and the node: show it once.
  const calls = node.calls.filter((call) => call.reason !== reason);
  if (reason === null && calls.length === 0) return null;
  return (
    <ul class="troubles">
      {reason === null ? null : (
        <li>
          {sentence(withoutName(reason, node))} {sinceWords(sinceSeconds)}{' '}
          {untilWords(node.state, endsInSeconds)}
        </li>
      )}
      {calls.map(({ method, state, reason: why, count: times, ...call }) => (
        <li key={method}>
          <code>{method}</code> {state === 'failing' ? 'is failing' : 'is set aside'}: {many(times, 'fault')}{' '}
          in a row. {sentence(withoutName(why, node).replace(`${method}: `, ''))}{' '}
          {sinceWords(call.sinceSeconds)} {untilWords(state, call.endsInSeconds)}
        </li>
      ))}
    </ul>
  );
}

/** Removes the name, which the card shows already. */
function withoutName(words: string, { name }: Endpoint): string {
  return words.replaceAll(` at ${name}`, '');
}

function sinceWords(seconds: number | null): string {
  return seconds === null ? '' : `For ${age(seconds)}.`;
}

function untilWords(state: Endpoint['state'], left: number | null): string {
  if (left === null) return '';
  if (left <= 0) return 'It is being asked again.';
  const what = state === 'set_aside' ? 'Set aside' : 'Asked after the others';
  return `${what} until ${momentIn(left)}, for ${age(left)} more.`;
}
