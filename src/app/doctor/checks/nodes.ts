import type { AccessMethod, CallSurvey, NodeSurvey } from '../../../access/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import type { StoredHeights } from '../facts/storeFacts.js';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

/** A node with a higher median latency slows everything down. */
const SLOW_MS = 1_000;

const MAX_SAID = 240;

/** Shortens a node's message, which can be any text of any length. */
function brief(text: string, maxLength = MAX_SAID): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}

/** A refusal ends with what to do about it. */
const MAX_REFUSAL = 600;

type Method = CallSurvey['method'];

/** For each need, the calls that serve it; either one does. */
const EITHER: readonly (readonly [what: string, ways: readonly Method[]])[] = [
  ['the head of the chain', ['SubscribeBlockDigestsFromLatest', 'GetLatestBlockHeader']],
  ['blocks', ['SubscribeBlocksFromStartHeight', 'GetBlockByHeight']],
  ['collections', ['GetFullCollectionByID', 'GetCollectionByID']],
];
const FEED: Method = 'SubscribeExecutionDataFromStartBlockHeight';

interface NodesAsked {
  readonly surveys: readonly NodeSurvey[];
  readonly stored: StoredHeights;
}

/** Whether the nodes answer, are of the right chain, and serve the calls that the daemon makes. */
export function checkNodes(
  config: Pick<DaemonConfig, 'access' | 'chainId' | 'edi' | 'ediOnly' | 'network'>,
  { stored, surveys }: NodesAsked,
): Finding[] {
  const serving = surveys.filter(
    (survey) =>
      survey.isAnswering &&
      foreignTo(survey, config, stored) === undefined &&
      survey.calls.every(({ outcome }) => outcome !== 'unauthenticated'),
  );
  const found = surveys.flatMap((survey) => checkNode(survey, config, stored, serving.length > 0));
  const offersFeed = serving.some((survey) => callOf(survey, FEED)?.outcome === 'served');
  if (serving.length > 0 && config.edi.enabled && !offersFeed) {
    const none = 'No node sent execution data just now';
    found.push(
      config.ediOnly
        ? problem(
            'no_daemon',
            `${none}, and ediOnly uses nothing else; name an --edi-node that serves it, or remove --edi-only.`,
          )
        : warning(
            `${none}, so every collection is requested; name an --edi-node that serves it, or add --no-edi.`,
          ),
    );
  }
  return found;
}

function checkNode(
  survey: NodeSurvey,
  config: Pick<DaemonConfig, 'access' | 'chainId' | 'edi' | 'network'>,
  stored: StoredHeights,
  hasOther: boolean,
): Finding[] {
  const { endpoint, head, latencyMs, sealedHeight, version } = survey;
  if (!survey.isAnswering) {
    const message = `Node ${endpoint.name} does not answer: ${whyOf(survey)}; ${fixOf(survey)}.`;
    return [hasOther ? warning(message) : problem('no_daemon', message)];
  }
  const foreign = foreignTo(survey, config, stored);
  if (foreign !== undefined) {
    const message = `Node ${endpoint.name} ${foreign}; name nodes of ${config.network}, or the --network of this one.`;
    return [hasOther ? warning(message) : problem('foreign', message)];
  }
  const refusal = survey.calls.find(({ outcome }) => outcome === 'unauthenticated');
  if (refusal !== undefined) {
    const message = `Node ${endpoint.name} refuses us: ${brief(refusal.said ?? '', MAX_REFUSAL)}.`;
    return [hasOther ? warning(message) : problem('no_daemon', message)];
  }
  const found = [...lacks(survey), ...limited(survey, config), ...behind(survey, stored)];
  if (latencyMs !== undefined && latencyMs > SLOW_MS) {
    found.push(
      warning(
        `Node ${endpoint.name} takes ${Math.round(latencyMs)} ms for a call; name a nearer --access-node, or expect slow catching up.`,
      ),
    );
  }
  const at =
    head === undefined
      ? 'does not report its head'
      : `is at height ${head.height}, sealed ${sealedHeight ?? 'unknown'}`;
  const spork = version === undefined ? '' : `, spork root ${version.sporkRootHeight}`;
  const software = version === undefined || version.semver === '' ? '' : ` ${version.semver}`;
  const took = latencyMs === undefined ? '' : `, ${Math.max(1, Math.round(latencyMs))} ms a call`;
  const secrecy = endpoint.tls ? 'TLS' : 'in the clear';
  found.push(
    ok(
      `Node ${endpoint.name}${software} (${survey.chainId ?? 'chain unknown'}${spork}, ${secrecy}) ${at}${took}.`,
    ),
  );
  return found;
}

/** The error message of a node that does not answer. */
function whyOf({ calls }: NodeSurvey): string {
  return brief(calls.find(({ said }) => said !== undefined)?.said ?? 'it said nothing');
}

/** What to do about a node that does not answer. `flag`: the flag that names such nodes. */
function fixOf(survey: NodeSurvey, flag = '--access-node'): string {
  const { endpoint, speaks } = survey;
  if (speaks === 'tls') return `it speaks TLS: write grpcs://${endpoint.name}`;
  const why = survey.calls.map(({ said = '' }) => said).join(' ');
  // The message ends with what to do.
  if (endpoint.tls && /it speaks no TLS|certificate/i.test(why)) return `or name another ${flag}`;
  return `check that it runs and can be reached from here (address, port, firewall), or name another ${flag}`;
}

/** How its chain or spork differs from the configuration or the store; `undefined`: it does not. */
function foreignTo(
  { chainId, version }: NodeSurvey,
  config: Pick<DaemonConfig, 'chainId'>,
  { sporks }: StoredHeights,
): string | undefined {
  if (chainId !== undefined && chainId !== config.chainId) return `serves ${chainId}, not ${config.chainId}`;
  const known = sporks.find(({ rootHeight }) => rootHeight === version?.sporkRootHeight);
  if (version === undefined || known === undefined || known.sporkId === '' || version.sporkId === '')
    return undefined;
  if (known.sporkId === version.sporkId) return undefined;
  return `gives spork ${version.sporkId} for root height ${known.rootHeight}, but the store has ${known.sporkId}`;
}

function callOf({ calls }: NodeSurvey, method: Method): CallSurvey | undefined {
  return calls.find((call) => call.method === method);
}

/** Calls that failed, and whether the daemon has another way to get the same. */
function lacks(survey: NodeSurvey): Finding[] {
  const { name } = survey.endpoint;
  return EITHER.flatMap(([what, ways]): Finding[] => {
    const asked = ways.flatMap((method) => callOf(survey, method) ?? []);
    // A quiet stream was accepted.
    const failed = asked.filter(({ outcome }) => outcome !== 'served' && outcome !== 'quiet');
    const [first] = failed;
    if (first === undefined) return [];
    const said = `Node ${name} does not serve ${first.method} (${first.outcome}: ${brief(first.said ?? '')})`;
    if (failed.length < asked.length)
      return [warning(`${said}; the daemon gets ${what} the other way, which costs more calls.`)];
    return [
      warning(
        `${said}, nor any other call for ${what}; ask its operator to enable it, or add another --access-node.`,
      ),
    ];
  });
}

function limited(survey: NodeSurvey, { access }: Pick<DaemonConfig, 'access'>): Finding[] {
  const call = survey.calls.find(({ outcome }) => outcome === 'rate_limited');
  if (call === undefined) return [];
  return [
    warning(
      `Node ${survey.endpoint.name} rejected a single call of ${call.method} as too many (${brief(call.said ?? '')}); lower ` +
        `--access-rate-per-second (now ${access.ratePerSecond === 0 ? 'no limit' : access.ratePerSecond}), or use a node of your own.`,
    ),
  ];
}

function behind({ endpoint, head, version }: NodeSurvey, { coverage }: StoredHeights): Finding[] {
  const indexed = coverage.at(-1)?.to;
  if (head === undefined || indexed === undefined) return [];
  if (head.height < indexed) {
    return [
      warning(
        `Node ${endpoint.name} is at height ${head.height}, below the indexed height ${indexed}; wait until it has caught up, or ` +
          'name another --access-node.',
      ),
    ];
  }
  const lowest = version === undefined ? 0 : Math.max(version.nodeRootHeight, version.sporkRootHeight);
  if (lowest <= indexed + 1) return [];
  return [
    warning(
      `Node ${endpoint.name} begins at height ${lowest}, above the next height to index, ${indexed + 1}; add an --access-node that has ` +
        'it (the daemon asks the nodes of earlier sporks in config/sporks.json by itself).',
    ),
  ];
}

/** What a mirror calls in place of the calls for blocks, by these. */
const PROVABLE: Readonly<Partial<Record<AccessMethod, string>>> = {
  GetBlockByHeight: 'GetProvableBlock',
  SubscribeBlocksFromStartHeight: 'SubscribeProvableBlocks',
};

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
      return warning(`${peer} does not answer: ${whyOf(survey)}; ${fixOf(survey, '--peer')}.`);
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
    const unknown = survey.calls.find(
      ({ method, outcome }) => outcome === 'unimplemented' && method in PROVABLE,
    );
    if (unknown !== undefined) {
      return warning(
        `${peer} does not know ${PROVABLE[unknown.method] ?? ''}, so it cannot be mirrored: it is of an older version; upgrade it.`,
      );
    }
    // A peer with nothing newer stays quiet.
    if (stream?.outcome !== 'served' && stream?.outcome !== 'quiet')
      return warning(`${peer} sent no block just now: ${brief(stream?.said ?? '')}; see its log.`);
    const secrecy = endpoint.tls ? 'TLS' : 'in the clear';
    return ok(`${peer} (${survey.chainId ?? 'chain unknown'}, ${secrecy}) sends its blocks.`);
  });
}
