import { PROVABLE, type CallSurvey, type Endpoint, type NodeSurvey } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { formatDuration } from '../../observability/index.js';
import type { StoredHeights } from './store.js';
import { ok, problem, those, warning, type Finding } from './verdicts.js';

/** A node with a higher median latency slows everything down. */
const SLOW_MS = 1_000;
/** A node's message can be any text of any length; a refusal ends with what to do about it. */
const MAX_SAID = 600;
/** The clock of a block's proposer may be ahead by this much. */
const AHEAD_MS = 3_000;
const PUBLIC: readonly string[] = ['mainnet', 'testnet'];
/** A public network has a block every second or so; an older newest block means a wrong clock, or a halted chain. */
const BEHIND_MS = 60_000;

function brief(text = 'it said nothing'): string {
  return text.length > MAX_SAID ? `${text.slice(0, MAX_SAID)}…` : text;
}

type Method = CallSurvey['method'];

/** For each need, the calls that serve it; either one does. */
const BLOCKS = ['SubscribeBlocksFromStartHeight', 'GetBlockByHeight'] as const;
const EITHER: readonly (readonly [what: string, ways: readonly Method[]])[] = [
  ['the head of the chain', ['SubscribeBlockDigestsFromLatest', 'GetLatestBlockHeader']],
  ['blocks', BLOCKS],
  ['collections', ['GetFullCollectionByID', 'GetCollectionByID']],
];
/** The calls that bring blocks, from a node or a peer. */
const FOR_BLOCKS: ReadonlySet<Method> = new Set([...BLOCKS, 'SubscribeIndexedBlocks']);
const FEED: Method = 'SubscribeExecutionDataFromStartBlockHeight';

/** Whether the nodes answer, are of the right chain, and serve the calls that the daemon makes. */
export function checkNodes(
  config: DaemonConfig,
  surveys: readonly NodeSurvey[],
  stored: StoredHeights,
): Finding[] {
  const judged = surveys.map((survey) => ({ survey, unusable: whyUnusable(survey, '--access-node') }));
  const serving = judged.filter(({ unusable }) => unusable === undefined);
  const ofEach = judged.flatMap(({ survey, unusable }) => {
    if (unusable === undefined) return checkNode(survey, config, stored);
    const message = `Node ${survey.endpoint.name} ${unusable.message}`;
    // One node is enough.
    return [serving.length > 0 ? warning(message) : { ...unusable, message }];
  });
  // A call that was not made may be served.
  const hasBlocks = serving.some(({ survey }) =>
    BLOCKS.some((method) => USEFUL.has(callOf(survey, method)?.outcome ?? 'served')),
  );
  if (serving.length === 0) return ofEach;
  const beginsAtRoot = config.startHeight === 'root' && stored.coverage.length === 0;
  const found = those(
    ...ofEach,
    !hasBlocks &&
      problem('no_daemon', 'No node serves blocks, so nothing is indexed; name an --access-node that does.'),
    beginsAtRoot &&
      serving.every(({ survey }) => survey.identity?.lowestHeight === undefined) &&
      problem(
        'configuration',
        'No node gives the root of the live spork, where indexing is to begin; name an --access-node that has it, or a height ' +
          'for --start-height.',
      ),
  );
  const offersFeed = serving.some(({ survey }) => callOf(survey, FEED)?.outcome === 'served');
  if (!config.edi.enabled || offersFeed) return found;
  const none = 'No node sent execution data just now';
  const another = 'name an --edi-node that serves it';
  return [
    ...found,
    config.ediOnly
      ? problem('no_daemon', `${none}, and ediOnly uses nothing else; ${another}, or remove --edi-only.`)
      : warning(`${none}, so every collection is requested; ${another}, or add --no-edi.`),
  ];
}

/** The outcomes of a call that the node serves, now or later. */
const USEFUL: ReadonlySet<CallSurvey['outcome']> = new Set(['served', 'quiet', 'rate_limited']);

/** Why a node or a peer is unusable, in words that follow its name; `undefined` if it is usable. */
function whyUnusable(survey: NodeSurvey, flag: '--access-node' | '--peer'): Finding | undefined {
  if (!survey.isAnswering) return problem('no_daemon', `does not answer: ${silence(survey, flag)}.`);
  if (survey.foreign !== undefined)
    return problem('foreign', `${survey.foreign}; name another ${flag}, or the --network of this one.`);
  const useful = survey.calls.filter(({ outcome }) => USEFUL.has(outcome));
  const refusal = survey.calls.find(({ outcome }) => outcome === 'unauthenticated');
  // A gateway may refuse one call, for which there is another.
  if (refusal !== undefined && !useful.some(({ method }) => FOR_BLOCKS.has(method)))
    return problem('no_daemon', `refuses us: ${brief(refusal.said)}.`);
  if (useful.length > 0) return undefined;
  return problem('no_daemon', `answers nothing but errors: ${silence(survey, flag)}.`);
}

/** Why a node does not answer, and what to do. `flag`: the flag that names such nodes. */
function silence({ calls, endpoint }: NodeSurvey, flag: string): string {
  const said = calls.flatMap((call) => call.said ?? []);
  const why = brief(said[0]);
  // The message ends with what to do.
  if (endpoint.tls && /it speaks no TLS|cert/i.test(said.join(' '))) return `${why}; or name another ${flag}`;
  return `${why}; check that it runs and can be reached from here (address, port, firewall), or name another ${flag}`;
}

function callOf({ calls }: NodeSurvey, method: Method): CallSurvey | undefined {
  return calls.find((call) => call.method === method);
}

/** What a usable node lacks, and where it is. */
function checkNode(
  survey: NodeSurvey,
  { access, startHeight }: DaemonConfig,
  { coverage }: StoredHeights,
): Finding[] {
  const { endpoint, head, identity, latencyMs, sealedHeight } = survey;
  const node = `Node ${endpoint.name}`;
  const limited = survey.calls.find(({ outcome }) => outcome === 'rate_limited');
  const indexed = coverage.at(-1)?.to ?? Infinity;
  const next = coverage.length === 0 && typeof startHeight === 'number' ? startHeight : indexed + 1;
  const lowest = identity?.lowestHeight ?? 0;
  const root = identity?.sporkRootHeight;
  const at =
    head === undefined
      ? 'does not report its head'
      : `is at height ${head.height}, sealed ${sealedHeight ?? 'unknown'}`;
  const spork = root === undefined ? '' : `, spork root ${root}`;
  const software = identity === undefined || identity.semver === '' ? '' : ` ${identity.semver}`;
  const took = latencyMs === undefined ? '' : `, ${Math.max(1, Math.round(latencyMs))} ms a call`;
  return those(
    ...lacks(survey),
    limited &&
      warning(
        `${node} rejected a single call of ${limited.method} as too many (${brief(limited.said)}); lower --access-rate-per-second ` +
          `(now ${access.ratePerSecond === 0 ? 'no limit' : access.ratePerSecond}), or use a node of your own.`,
      ),
    head !== undefined &&
      head.height < indexed &&
      indexed !== Infinity &&
      warning(
        `${node} is at height ${head.height}, below the indexed height ${indexed}; wait until it has caught up, or name another --access-node.`,
      ),
    lowest > next &&
      warning(
        `${node} begins at height ${lowest}, above the next height to index, ${next}; add an --access-node that has it (the ` +
          'daemon also asks the nodes of earlier sporks in config/sporks.json).',
      ),
    latencyMs !== undefined &&
      latencyMs > SLOW_MS &&
      warning(
        `${node} takes ${Math.round(latencyMs)} ms for a call; name a nearer --access-node, or expect slow catching up.`,
      ),
    ok(`${node}${software} (${chainOf(survey)}${spork}, ${secrecyOf(endpoint)}) ${at}${took}.`),
  );
}

function chainOf({ identity }: NodeSurvey): string {
  return identity === undefined || identity.chainId === '' ? 'chain unknown' : identity.chainId;
}

function secrecyOf({ tls }: Endpoint): string {
  return tls ? 'TLS' : 'in the clear';
}

/** Calls that failed, and whether the daemon has another way to get the same. */
function lacks(survey: NodeSurvey): Finding[] {
  return EITHER.flatMap(([what, ways]): Finding[] => {
    const asked = ways.flatMap((method) => callOf(survey, method) ?? []);
    // A quiet stream was accepted.
    const failed = asked.filter(({ outcome }) => outcome !== 'served' && outcome !== 'quiet');
    const [first] = failed;
    if (first === undefined) return [];
    const { method, outcome, said } = first;
    const without =
      failed.length < asked.length
        ? `; the daemon gets ${what} the other way, which costs more calls.`
        : `, nor any other call for ${what}; ask its operator to enable it, or add another --access-node.`;
    return [
      warning(`Node ${survey.endpoint.name} does not serve ${method} (${outcome}: ${brief(said)})${without}`),
    ];
  });
}

/** Whether the peers answer, are of the right chain, and send their blocks. Without them the daemon asks the nodes, if any. */
export function checkPeers(config: DaemonConfig, surveys: readonly NodeSurvey[]): Finding[] {
  const found = surveys.map((survey) => {
    const peer = `Peer ${survey.endpoint.name}`;
    const trouble = peerTrouble(survey);
    const about = `${chainOf(survey)}, ${secrecyOf(survey.endpoint)}`;
    return trouble === undefined ? ok(`${peer} (${about}) sends its blocks.`) : warning(`${peer} ${trouble}`);
  });
  if (config.accessNodes.length > 0 || found.some(({ verdict }) => verdict === 'ok')) return found;
  const alone =
    'None of the peers can be used, and there is no access node; name an indexer that sends its blocks with --peer.';
  return [...found, problem('no_daemon', alone)];
}

function peerTrouble(survey: NodeSurvey): string | undefined {
  const unusable = whyUnusable(survey, '--peer');
  if (unusable !== undefined) return unusable.message;
  const stream = survey.calls.find(({ method }) => method === 'SubscribeIndexedBlocks');
  if (stream?.outcome === 'unimplemented')
    return 'has no stream of indexed blocks: it is not an indexer, or an older version; name the gRPC port of one, or upgrade it.';
  const unknown = survey.calls.find(
    ({ method, outcome }) => outcome === 'unimplemented' && method in PROVABLE,
  );
  if (unknown !== undefined)
    return `does not know ${PROVABLE[unknown.method] ?? ''}, so it cannot be mirrored: it is of an older version; upgrade it.`;
  // A peer with nothing newer stays quiet.
  const sends = stream?.outcome === 'served' || stream?.outcome === 'quiet';
  return sends ? undefined : `sent no block just now: ${brief(stream?.said)}; see its log.`;
}

/** Compares our clock with the newest block of all nodes. */
export function checkClock(surveys: readonly NodeSurvey[], { network }: DaemonConfig): Finding {
  const ages = surveys.flatMap(({ head, headAskedAtMs }) =>
    head?.timestampMs === undefined || headAskedAtMs === undefined ? [] : [headAskedAtMs - head.timestampMs],
  );
  if (ages.length === 0) return ok('No node gave the time of a block, so the clock was not checked.');
  const ageMs = Math.min(...ages);
  const said = `By the clock of this machine the newest block is ${formatDuration(Math.abs(ageMs) / 1000)}`;
  const fix = 'synchronize it with NTP (timedatectl set-ntp true).';
  if (ageMs < -AHEAD_MS) return warning(`${said} in the future, so this clock is slow; ${fix}`);
  if (PUBLIC.includes(network) && ageMs > BEHIND_MS)
    return warning(`${said} old: either the chain has halted, or this clock is fast; ${fix}`);
  return ok(`${said} ${ageMs < 0 ? 'in the future' : 'old'}.`);
}
