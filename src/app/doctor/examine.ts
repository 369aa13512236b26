import { parseEndpoint, surveyNode } from '../../access/index.js';
import type { NodeSurvey } from '../../access/index.js';
import { readHeightsToFill } from '../../config/index.js';
import type { DaemonConfig, LoadedConfig } from '../../config/index.js';
import { descriptorLimit } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { joined, without } from '../../storage/index.js';
import { credentialsFor, knownNodes, readNodeMetadata } from '../guard/nodeMetadata.js';
import type { CredentialSources } from '../guard/nodeMetadata.js';
import { readPeerToken } from '../guard/tokens.js';
import { readShippedSporks } from '../lifecycle/readShippedSporks.js';
import { checkClock } from './checks/clockCheck.js';
import { checkConfiguration } from './checks/configuration.js';
import { checkDatabase } from './checks/database.js';
import { checkDisk } from './checks/disk.js';
import { checkExposure } from './checks/exposure.js';
import { checkLimits } from './checks/limits.js';
import { checkMachine, thisMachine } from './checks/machine.js';
import { checkNodes } from './checks/nodes.js';
import { checkPeers } from './checks/peers.js';
import { factsOfStore, heightsIn, nothingStored } from './facts/storeFacts.js';
import type { StoredHeights } from './facts/storeFacts.js';
import { ok, problem } from './verdicts.js';
import type { CheckName, Finding, Verdict } from './verdicts.js';

/** For each call to a node, and for the wait for a stream. */
const CALL_LIMIT_MS = 4_000;
/** A check that takes longer counts as hanging. */
const CHECK_LIMIT_MS = 45_000;
/** Networks that make blocks all the time. */
const PUBLIC: readonly string[] = ['mainnet', 'testnet'];

/**
 * Checks what the daemon needs and `start` cannot see, or says too late, and calls back with each verdict. Changes nothing, except
 * for a small file beside the store that it removes again. No expected errors: a failure is a verdict.
 */
export async function examine(
  loaded: LoadedConfig,
  { clock, onVerdict }: { readonly clock: Clock; readonly onVerdict: (verdict: Verdict) => void },
): Promise<readonly Verdict[]> {
  const { config } = loaded;
  const verdicts: Verdict[] = [];
  const check = async (name: CheckName, look: () => Promise<Finding[]> | Finding[]): Promise<void> => {
    const found = await within(name, look, clock);
    for (const finding of found) {
      const verdict = { check: name, ...finding };
      verdicts.push(verdict);
      onVerdict(verdict);
    }
  };
  await check('machine', () => checkMachine(config, thisMachine()));
  await check('limits', () => checkLimits(config, descriptorLimit()));
  let stored = nothingStored;
  await check('store', async () => {
    const facts = await factsOfStore(config, clock);
    stored = heightsIn(facts);
    if (facts.kind === 'unreachable') return [problem(facts.error.exit, facts.error.message)];
    return facts.kind === 'database' ? checkDatabase(config, facts) : [];
  });
  let surveys: readonly NodeSurvey[] = [];
  await check('nodes', async () => {
    // A process that only serves readers asks no node.
    if (config.roles.every((role) => role === 'api'))
      return [ok('This process only serves readers and asks no node.')];
    const sources = await credentialSources(config);
    surveys = await surveyNodes(config, sources, clock);
    const heads = surveys.flatMap(({ head }) => head?.height ?? []);
    const fromHeight = stored.coverage.at(-1)?.to ?? Math.max(0, ...heads);
    const peers = await surveyPeers(config, sources, fromHeight, clock);
    return [...checkNodes(config, { surveys, stored }), ...checkPeers(config, peers)];
  });
  await check('clock', () => checkClock(surveys, { isPublic: PUBLIC.includes(config.network) }));
  await check('disk', async () => {
    const heightsToCome = await countHeightsToCome(config, stored, surveys);
    return checkDisk(config, { stored, heightsToCome }, clock);
  });
  await check('exposure', async () =>
    checkExposure(config, { clock, nodes: knownNodes(config, await readShippedSporks(config.network)) }),
  );
  await check('configuration', () => checkConfiguration(loaded));
  return verdicts;
}

/** Ends with a problem when a check hangs. */
async function within(
  name: CheckName,
  look: () => Promise<Finding[]> | Finding[],
  clock: Clock,
): Promise<Finding[]> {
  let timer: Timer | undefined;
  const late = new Promise<Finding[]>((resolve) => {
    const seconds = CHECK_LIMIT_MS / 1000;
    const message = `This check has not ended within ${seconds} s: something about ${name} hangs; see the system log.`;
    timer = clock.setTimer(CHECK_LIMIT_MS, () => resolve([problem('storage', message)]));
  });
  try {
    return await Promise.race([Promise.resolve(look()), late]);
  } finally {
    timer?.cancel();
  }
}

/** What the nodes want, as far as the files can be used: the exposure check reports those that cannot. */
async function credentialSources(config: DaemonConfig): Promise<CredentialSources> {
  const { access, network, peerTokenFile } = config;
  const { metadataFile } = access;
  const nodes = knownNodes(config, await readShippedSporks(network));
  const usable = async <T>(reading: Promise<T>): Promise<T | undefined> => reading.catch(() => undefined);
  const metadata = metadataFile && (await usable(readNodeMetadata(metadataFile, { access, nodes })));
  const token = peerTokenFile && (await usable(readPeerToken(peerTokenFile)));
  return { metadata: () => metadata || undefined, metadataFile, peerToken: () => token };
}

/** All nodes at once, each once, even if it is configured for two purposes. */
function surveyNodes(
  { access, accessNodes, edi, peers }: DaemonConfig,
  sources: CredentialSources,
  clock: Clock,
): Promise<readonly NodeSurvey[]> {
  const feedNodes = edi.enabled ? edi.nodes.map(parseEndpoint) : [];
  const feeds = new Set(feedNodes.map(({ name }) => name));
  const byName = new Map([...accessNodes.map(parseEndpoint), ...feedNodes].map((each) => [each.name, each]));
  const { maxMessageBytes } = access;
  const peerNames = new Set(peers.map((peer) => parseEndpoint(peer).name));
  return Promise.all(
    [...byName.values()].map((endpoint) =>
      surveyNode(
        {
          ...{ endpoint, maxMessageBytes, timeoutMs: CALL_LIMIT_MS },
          asksExecutionData: feeds.has(endpoint.name),
          credentials: credentialsFor(endpoint, peerNames.has(endpoint.name), sources),
        },
        { clock },
      ),
    ),
  );
}

function surveyPeers(
  { access, peers }: DaemonConfig,
  sources: CredentialSources,
  fromHeight: number,
  clock: Clock,
): Promise<readonly NodeSurvey[]> {
  const { maxMessageBytes } = access;
  return Promise.all(
    peers.map(parseEndpoint).map((endpoint) =>
      surveyNode(
        {
          ...{ endpoint, maxMessageBytes, timeoutMs: CALL_LIMIT_MS },
          ...{ asksExecutionData: false, peer: { fromHeight } },
          credentials: credentialsFor(endpoint, true, sources),
        },
        { clock },
      ),
    ),
  );
}

/** Heights up to the head or the stop height, and in planned history. `undefined`: no node reported its head. */
async function countHeightsToCome(
  { backfill, network, startHeight, stopHeight }: DaemonConfig,
  { coverage, plans }: StoredHeights,
  surveys: readonly NodeSurvey[],
): Promise<number | undefined> {
  const heads = surveys.flatMap(({ head }) => head?.height ?? []);
  if (heads.length === 0) return undefined;
  const head = Math.max(...heads);
  const target = Math.min(head, stopHeight ?? head);
  const roots = surveys.flatMap(({ version }) => version?.sporkRootHeight ?? []);
  const root = roots.length === 0 ? undefined : Math.max(...roots);
  const begins = startHeight === 'latest' ? head : startHeight === 'root' ? (root ?? head) : startHeight;
  const next = (coverage.at(-1)?.to ?? begins - 1) + 1;
  const wanted = backfill.plan === undefined ? undefined : readHeightsToFill(backfill.plan);
  const first = coverage.at(-1)?.from ?? begins;
  const lowest = wanted === undefined ? first : await lowestOf(wanted.from, network, root ?? first);
  const history = joined([...plans, { from: lowest, to: wanted?.to ?? first - 1 }]);
  const live = Math.max(0, target - next + 1);
  return without(history, coverage).reduce((count, { from, to }) => count + to - from + 1, live);
}

async function lowestOf(
  from: NonNullable<ReturnType<typeof readHeightsToFill>>['from'],
  network: string,
  root: number,
): Promise<number> {
  if (typeof from === 'number') return from;
  if (from === 'root') return root;
  const sporks = await readShippedSporks(network);
  const named = typeof from === 'object' ? sporks.find(({ name }) => name === from.spork) : sporks[0];
  return named?.rootHeight ?? root;
}
