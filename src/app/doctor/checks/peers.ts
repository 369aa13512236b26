import type { NodeSurvey } from '../../../access/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';
import { brief, MAX_REFUSAL, mendOf, whyOf } from './nodes.js';

/** Whether the peers answer, are of the right chain, and send their blocks. Without them the daemon asks the nodes, if any. */
export function checkPeers(
  config: Pick<DaemonConfig, 'accessNodes' | 'chainId' | 'network'>,
  surveys: readonly NodeSurvey[],
): Finding[] {
  const found = peerFindings(config, surveys);
  if (config.accessNodes.length > 0 || found.some(({ verdict }) => verdict === 'ok')) return found;
  const alone =
    'None of the peers can be used, and there is no access node; name an indexer that sends its blocks with --peer.';
  return [...found, problem('no_daemon', alone)];
}

function peerFindings(
  { chainId, network }: Pick<DaemonConfig, 'chainId' | 'network'>,
  surveys: readonly NodeSurvey[],
): Finding[] {
  return surveys.map((survey) => {
    const { endpoint } = survey;
    const peer = `Peer ${endpoint.name}`;
    if (!survey.isAnswering)
      return warning(`${peer} does not answer: ${whyOf(survey)}; ${mendOf(survey, '--peer')}.`);
    const refusal = survey.calls.find(({ outcome }) => outcome === 'unauthenticated');
    if (refusal !== undefined)
      return warning(`${peer} refuses us: ${brief(refusal.said ?? '', MAX_REFUSAL)}.`);
    if (survey.chainId !== undefined && survey.chainId !== chainId)
      return warning(`${peer} serves ${survey.chainId}, not ${chainId}; name an indexer of ${network}.`);
    const stream = survey.calls.find(({ method }) => method === 'SubscribeIndexedBlocks');
    if (stream?.outcome === 'unimplemented') {
      return warning(
        `${peer} has no stream of indexed blocks: it is not an indexer, or an older version; name the gRPC port of one, or upgrade it.`,
      );
    }
    // A peer with nothing newer stays quiet.
    if (stream?.outcome !== 'served' && stream?.outcome !== 'quiet')
      return warning(`${peer} sent no block just now: ${brief(stream?.said ?? '')}; see its log.`);
    const secrecy = endpoint.tls ? 'TLS' : 'in the clear';
    return ok(`${peer} (${survey.chainId ?? 'chain unknown'}, ${secrecy}) sends its blocks.`);
  });
}
