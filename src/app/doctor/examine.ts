import { parseEndpoint, redirectLibraryLogs, surveyNode } from '../../access/index.js';
import type { Endpoint, NodeSurvey } from '../../access/index.js';
import { readHeightsToFill } from '../../config/index.js';
import type { DaemonConfig, HeightsToFill, LoadedConfig } from '../../config/index.js';
import { silentLogger } from '../../observability/index.js';
import { countHeights } from '../../ranges/index.js';
import { OperatorError, within, type Clock } from '../../runtime/index.js';
import { joined, without } from '../../storage/index.js';
import { credentialsFor, knownNodes, readNodeMetadata } from '../guard/nodeMetadata.js';
import { namedBlocks, rootOf, sporksOf } from '../lifecycle/knownBlocks.js';
import { checkDisk } from './disk.js';
import { checkCertificate, checkExposure } from './exposure.js';
import { checkClock, checkNodes, checkPeers } from './nodes.js';
import { checkReplica, lookAtStore, nothingStored } from './store.js';
import type { StatusOfDaemon, StoredHeights } from './store.js';
import { ok, problem, type CheckName, type Finding, type Verdict } from './verdicts.js';

/** A check that takes longer counts as hanging. */
const CHECK_LIMIT_MS = 45_000;

/**
 * Checks what `start` cannot see, or reports too late, and calls back with each verdict. Changes nothing. No expected errors:
 * a failure is a verdict.
 */
export async function examine(
  { config, origins }: Pick<LoadedConfig, 'config' | 'origins'>,
  parts: {
    readonly clock: Clock;
    readonly status: StatusOfDaemon;
    readonly onVerdict: (verdict: Verdict) => void;
  },
): Promise<readonly Verdict[]> {
  const { clock, onVerdict } = parts;
  redirectLibraryLogs({ logger: silentLogger });
  const verdicts: Verdict[] = [];
  const check = async (name: CheckName, look: Look): Promise<void> => {
    for (const finding of await foundBy(name, look, clock)) {
      const verdict = { check: name, ...finding };
      verdicts.push(verdict);
      onVerdict(verdict);
    }
  };
  const sporks = await sporksOf(config);
  let stored = nothingStored;
  let surveys: readonly NodeSurvey[] = [];
  await check('store', async () => {
    const look = await lookAtStore(config, parts);
    stored = look.stored;
    return look.found;
  });
  await check('store', () => checkReplica(config, clock));
  await check('nodes', async () => {
    if (config.roles.every((role) => role === 'api'))
      return [ok('This process only serves readers and asks no node.')];
    const { access, chainId, network } = config;
    const { maxMessageBytes, metadataFile } = access;
    const nodes = knownNodes(config, sporks);
    const metadata = metadataFile ? readNodeMetadata(metadataFile, { access, nodes }) : new Map();
    const [checkpoint] = namedBlocks(config.proof.checkpoint, []);
    const expectation = { chainId, network, sporks: stored.sporks, checkpoint };
    const asAll = { asksFullBlocks: config.proof.mode !== 'off', expectation, maxMessageBytes };
    const ask = (endpoint: Endpoint, isPeer: boolean, asks: Asks): Promise<NodeSurvey> => {
      const credentials = credentialsFor(endpoint, isPeer, metadataFile, () => metadata);
      return surveyNode({ ...asAll, ...asks, endpoint, credentials }, { clock });
    };
    const feeds = config.edi.enabled ? config.edi.nodes.map(parseEndpoint) : [];
    const peers = config.peers.map(parseEndpoint);
    // All at once, and each only once, even if it is configured for two purposes.
    const named = [...config.accessNodes.map(parseEndpoint), ...feeds];
    const byName = new Map(named.map((endpoint) => [endpoint.name, endpoint]));
    const isOf = (endpoints: readonly Endpoint[], { name }: Endpoint): boolean =>
      endpoints.some((other) => other.name === name);
    surveys = await Promise.all(
      [...byName.values()].map((endpoint) =>
        ask(endpoint, isOf(peers, endpoint), { asksExecutionData: isOf(feeds, endpoint) }),
      ),
    );
    const fromHeight = stored.coverage.at(-1)?.to ?? headOf(surveys) ?? 0;
    const peer = config.accessNodes.length === 0 ? ('mirrored' as const) : { fromHeight };
    const ofPeers = await Promise.all(
      peers.map((endpoint) => ask(endpoint, true, { asksExecutionData: false, peer })),
    );
    return [...checkNodes(config, surveys, stored), ...checkPeers(config, ofPeers)];
  });
  await check('clock', () => [checkClock(surveys, config)]);
  await check('disk', async () => checkDisk(config, stored, heightsToCome(config, stored, surveys, sporks)));
  await check('exposure', () => checkExposure({ config, origins }));
  await check('exposure', () => checkCertificate(config, clock));
  return verdicts;
}

type Asks = Pick<Parameters<typeof surveyNode>[0], 'asksExecutionData' | 'peer'>;
type Look = () => Promise<readonly Finding[]> | readonly Finding[];

/** What a check finds; a failure is a problem, and so is a check that hangs. */
async function foundBy(name: CheckName, look: Look, clock: Clock): Promise<readonly Finding[]> {
  try {
    const found = await within(clock, CHECK_LIMIT_MS, Promise.resolve(look()));
    if (found !== 'late') return found;
    const message = `This check has not ended within ${CHECK_LIMIT_MS / 1000} s: something about ${name} hangs; see the system log.`;
    return [problem('storage', message)];
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [problem(error.exit, error.message)];
  }
}

/** The highest head; `undefined`: no node reported its head. */
function headOf(surveys: readonly NodeSurvey[]): number | undefined {
  const heads = surveys.flatMap(({ head }) => head?.height ?? []);
  return heads.length === 0 ? undefined : Math.max(...heads);
}

/** Heights up to the head or the stop height, and in planned history. `undefined`: no node reported its head. */
function heightsToCome(
  { backfill, startHeight, stopHeight }: DaemonConfig,
  { coverage, plans }: StoredHeights,
  surveys: readonly NodeSurvey[],
  sporks: Awaited<ReturnType<typeof sporksOf>>,
): number | undefined {
  const head = headOf(surveys);
  if (head === undefined) return undefined;
  const roots = surveys.flatMap(({ identity }) => identity?.sporkRootHeight ?? []);
  const root = roots.length === 0 ? head : Math.max(...roots);
  const begins = startHeight === 'latest' ? head : startHeight === 'root' ? root : startHeight;
  const { from: first, to: last } = coverage.at(-1) ?? { from: begins, to: begins - 1 };
  const planned = readHeightsToFill(backfill.plan ?? '');
  const lowestOf = (from: HeightsToFill['from']): number => {
    if (typeof from === 'number') return from;
    if (typeof from === 'object') return rootOf(from.spork, sporks, 'configuration');
    return (from === 'everything' ? sporks[0]?.rootHeight : undefined) ?? root;
  };
  const history = planned ? [{ from: lowestOf(planned.from), to: planned.to ?? first - 1 }] : [];
  const live = { from: last + 1, to: Math.min(head, stopHeight ?? head) };
  return countHeights(without(joined([...plans, ...history, live]), coverage));
}
