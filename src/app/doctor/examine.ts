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
import { checkDatabase } from './checks/database.js';
import { checkDisk } from './checks/disk.js';
import { checkExposure } from './checks/exposure.js';
import { checkMachine, thisMachine } from './checks/machine.js';
import { checkNodes, checkPeers } from './checks/nodes.js';
import { factsOfStore, heightsIn, nothingStored } from './facts/storeFacts.js';
import type { StoredHeights } from './facts/storeFacts.js';
import { ok, problem, warning } from './verdicts.js';
import type { CheckName, Finding, Verdict } from './verdicts.js';
import { formatDuration } from '../../observability/index.js';
import {
  descriptorShares,
  fewestDescriptors,
  isEnough,
  plentyOfDescriptors,
} from '../lifecycle/descriptorShares.js';

/** The clock of a block's proposer may be ahead by this much. */
const AHEAD_MS = 3_000;

/** A public network has a block every second or so; an older newest block means a wrong clock, or a halted chain. */
const BEHIND_MS = 60_000;

/**
 * Compares our clock with the timestamps of the nodes' newest blocks. `isPublic`: the network makes blocks all the time;
 * elsewhere an old block only means that nothing happens.
 */
function checkClock(surveys: readonly NodeSurvey[], { isPublic }: { readonly isPublic: boolean }): Finding[] {
  const ages = surveys.flatMap(({ endpoint, head, headAskedAtMs }) =>
    head?.timestampMs === undefined || headAskedAtMs === undefined
      ? []
      : [{ name: endpoint.name, ageMs: headAskedAtMs - head.timestampMs }],
  );
  const [first, ...others] = ages;
  if (first === undefined) return [ok('No node gave the time of a block, so the clock was not checked.')];
  // The newest block: others may come from nodes that lag.
  const newest = others.reduce((least, age) => (age.ageMs < least.ageMs ? age : least), first);
  const inWords = formatDuration(Math.abs(newest.ageMs) / 1000);
  if (newest.ageMs < -AHEAD_MS) {
    return [
      warning(
        `By the clock of this machine the newest block (${newest.name}) is ${inWords} in the future, so this clock is slow; ` +
          'synchronize it with NTP (timedatectl set-ntp true).',
      ),
    ];
  }
  if (isPublic && newest.ageMs > BEHIND_MS) {
    return [
      warning(
        `By the clock of this machine the newest block (${newest.name}) is ${inWords} old: either the chain has halted, or this clock ` +
          'is fast; synchronize it with NTP (timedatectl set-ntp true).',
      ),
    ];
  }
  if (newest.ageMs > BEHIND_MS)
    return [
      ok(
        `The newest block (${newest.name}) is ${inWords} old, which on this network says nothing about the clock.`,
      ),
    ];
  const relation = newest.ageMs < 0 ? 'ahead of' : 'behind';
  const shown = Math.abs(newest.ageMs) < 1_000 ? 'less than a second' : inWords;
  return [ok(`The newest block (${newest.name}) is ${shown} ${relation} the clock of this machine.`)];
}

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
  const usable = async <T>(read: () => T | Promise<T>): Promise<T | undefined> =>
    Promise.resolve()
      .then(read)
      .catch(() => undefined);
  const metadata = metadataFile && (await usable(() => readNodeMetadata(metadataFile, { access, nodes })));
  const token = peerTokenFile && (await usable(() => readPeerToken(peerTokenFile)));
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
          endpoint,
          maxMessageBytes,
          timeoutMs: CALL_LIMIT_MS,
          asksExecutionData: feeds.has(endpoint.name),
          credentials: credentialsFor(endpoint, peerNames.has(endpoint.name), sources),
        },
        { clock },
      ),
    ),
  );
}

function surveyPeers(
  { access, accessNodes, peers }: DaemonConfig,
  sources: CredentialSources,
  fromHeight: number,
  clock: Clock,
): Promise<readonly NodeSurvey[]> {
  const { maxMessageBytes } = access;
  return Promise.all(
    peers.map(parseEndpoint).map((endpoint) =>
      surveyNode(
        {
          endpoint,
          maxMessageBytes,
          timeoutMs: CALL_LIMIT_MS,
          asksExecutionData: false,
          peer: accessNodes.length === 0 ? 'mirrored' : { fromHeight },
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

/** Settings that expose a secret or switch off a safeguard. */
function checkConfiguration({ config, effective, origins }: LoadedConfig): Finding[] {
  const { disk, scrub, store } = config;
  const found: Finding[] = [];
  if (store !== undefined && origins['store'] === 'flag' && hasPassword(store)) {
    found.push(
      warning(
        '--store contains a password, which every user of the machine can see; put it in PGPASSFILE or PGPASSWORD.',
      ),
    );
  }
  if (store === undefined && scrub.bytesPerSecond === 0) {
    found.push(
      warning(
        'Stored heights are not verified while the daemon runs; leave out --scrub-bytes-per-second 0, or run "verify" now and then.',
      ),
    );
  }
  if (store === undefined && disk.minFreeBytes === 0) {
    found.push(
      warning(
        'A full disk will end the daemon, because --disk-min-free-bytes is 0; leave it out, so that indexing pauses in time.',
      ),
    );
  }
  const set = Object.keys(effective).filter((key) => origins[key] !== 'default').length;
  return [
    ...found,
    ok(`The configuration is valid; ${set} of ${Object.keys(effective).length} keys are set.`),
  ];
}

function hasPassword(url: string): boolean {
  return URL.canParse(url) && new URL(url).password !== '';
}

/** Limits that the system sets for the process. `files`: how many may be open; `Infinity`: any number, or it does not say. */
function checkLimits(config: DaemonConfig, files: number): Finding[] {
  const [fewest, plenty] = [fewestDescriptors(config), plentyOfDescriptors(config)];
  const advice = `raise the limit to ${plenty} (ulimit -n ${plenty}, or LimitNOFILE=${plenty} of the systemd unit).`;
  if (files < fewest)
    return [
      problem(
        'configuration',
        `Only ${files} files may be open, but the daemon needs ${fewest} to start: ${advice}`,
      ),
    ];
  const { maxConnections } = config.api;
  if (!isEnough(config, files)) {
    const { perPort } = descriptorShares(config, files);
    return [
      warning(
        `${files} files may be open, so each port of the read API takes ${perPort} connections and not the ${maxConnections} of api.maxConnections: ${advice}`,
      ),
    ];
  }
  const many = files === Infinity ? 'Any number of' : String(files);
  return [ok(`${many} files may be open, enough for ${maxConnections} connections to each port.`)];
}
