import { accountDocument, checkLookupKey, explainDocument, isLookupKind } from '../../api/index.js';
import { lookupDocument, parseAccountRequest, parseExplainKey, workOfStore } from '../../api/index.js';
import type { ExplainDocument, IndexedRange, MissingDocument, WorkDocument } from '../../api/index.js';
import { loadStores } from '../../app/index.js';
import { formatDuration } from '../../observability/index.js';
import { systemClock } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { ACCOUNT, getKinds, type explainFlags, type getFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { checked, documentFrom } from '../client/documentFrom.js';
import { wrongUse, type Run, type Invocation } from '../command.js';
import { labelled, reasonWords, type Row } from '../output/words.js';

export const get: Run<typeof getFlags> = async (invocation, terminal) => {
  const { path, read } = questionOf(invocation);
  const loaded = await configOf(invocation, terminal);
  const document = await documentFrom<unknown>(loaded, path, read);
  terminal.out(JSON.stringify(document, undefined, 2) + '\n');
  return 'done';
};

/** The daemon's path for the request, and the same read of a store. Expected errors: OperatorError `usage`. */
function questionOf({ flags, positionals }: Invocation<typeof getFlags>) {
  const [kind, key] = positionals;
  const given = Object.entries(flags).filter((flag): flag is [string, string] => flag[1] !== null);
  if (kind === ACCOUNT && key !== undefined) {
    const asked = { address: key, role: '', limit: '', cursor: '', ...Object.fromEntries(given) };
    checked(() => parseAccountRequest(asked));
    const query = new URLSearchParams(given.filter(([, value]) => value !== '')).toString();
    return {
      path: `/accounts/${encodeURIComponent(key)}/transactions?${query}`,
      read: (store: IndexStore, range: IndexedRange) =>
        accountDocument(store, asked, { ...range, healing: store.healing() }),
    };
  }
  if (kind === undefined || !isLookupKind(kind) || key === undefined)
    throw wrongUse(
      `Say what to get: flow-collection-indexer get ${getKinds.join('|')} <id, height or address>.`,
    );
  const [foreign] = given;
  if (foreign !== undefined)
    throw wrongUse(`--${foreign[0]} is only for get account. See flow-collection-indexer get --help.`);
  checked(() => checkLookupKey(kind, key));
  return {
    path: `/lookup/${kind}/${encodeURIComponent(key)}`,
    read: (store: IndexStore, range: IndexedRange) => lookupDocument(store, kind, key, () => range),
  };
}

export const explain: Run<typeof explainFlags> = async (invocation, terminal) => {
  const [key] = invocation.positionals;
  if (key === undefined) throw wrongUse('Say what to explain: flow-collection-indexer explain <height|id>.');
  checked(() => parseExplainKey(key));
  const { json } = invocation.flags;
  const loaded = await configOf(invocation, terminal);
  const document = await documentFrom(loaded, `/explain/${encodeURIComponent(key)}`, async (store, range) => {
    const stores = await loadStores();
    const work = workOfStore(store, () => range, stores.plannedHeightOf.bind(undefined, store));
    return explainDocument(store, key, work);
  });
  const text = JSON.stringify(document, undefined, 2) + '\n';
  terminal.out(json ? text : renderExplanation(document, systemClock.now()));
  return document.stage === 'unknown_id' ? 'not_found' : 'done';
};

/** Missing collections that are described in full; the rest are only counted. */
const MAX_STORIES = 10;

/** Formats an explanation for people. Heights have no separators, so that they can be copied. */
function renderExplanation(document: ExplainDocument, nowMs: number): string {
  const { blockId, height, holdingUp, reasons, stage, summary, work } = document;
  const rows: Row[] = [['stage', stage.replaceAll('_', ' ')]];
  if (blockId !== null) rows.push(['block', blockId]);
  if (work !== null) rows.push(...workRows(work, nowMs));
  if (stage !== 'indexed') {
    rows.push(...sourceRows(document));
    if (holdingUp !== null && holdingUp.height !== height) {
      const since = `for ${formatDuration(holdingUp.ageSeconds)}`;
      rows.push(['held up by', `height ${holdingUp.height}, ${since}: ${holdingUp.message}`]);
    }
  }
  rows.push(['indexed', indexed(document)]);
  for (const reason of reasons) rows.push(['not ready', reasonWords(reason)]);
  return `${summary}\n\n${labelled(rows)}`;
}

function workRows(work: WorkDocument, nowMs: number): Row[] {
  const { ageSeconds, collections, executionData, missing, missingCollections, peer, reportedBy } = work;
  const handedOut = `${formatDuration(ageSeconds)} ago; ${missing} of ${collections} collections missing`;
  const rows: Row[] = [['handed out', handedOut]];
  for (const one of missingCollections.slice(0, MAX_STORIES)) rows.push(...missingRows(one, nowMs));
  if (missing > MAX_STORIES) rows.push(['', `and ${missing - MAX_STORIES} more; --json lists up to 100`]);
  if (executionData !== null) rows.push(['edi', executionData]);
  if (peer !== null) rows.push(['peer', peer]);
  if (reportedBy !== null) rows.push(['guarantees', `unproven, on the word of ${reportedBy}`]);
  return rows;
}

function missingRows(one: MissingDocument, nowMs: number): Row[] {
  const { attempts, collectionId, failures, isUnderWay, lastAskedAt, lastNode, notFound } = one;
  const now = isUnderWay ? 'being asked for now' : 'to be asked for again';
  const head: Row = ['missing', collectionId];
  if (attempts === 0 || lastAskedAt === null) return [head, ['', isUnderWay ? now : 'not asked for yet']];
  const last = `the last to ${lastNode ?? 'no node'} ${ago(lastAskedAt, nowMs)}`;
  return [
    head,
    ['', `${attempts} requests, ${last}; ${notFound} times not found; ${now}`],
    ...failures.map(({ node, count, lastError, lastAt }): Row => [
      '',
      `${node}: failed ${count} times, last ${ago(lastAt, nowMs)}: ${lastError}`,
    ]),
  ];
}

function sourceRows({ sources }: ExplainDocument): Row[] {
  if (sources === null) return [];
  const { nodes, executionData, peer } = sources;
  const rows = nodes.map(({ name, state, servesHeight, trouble }): Row => {
    const skipped = servesHeight ? '' : ', not asked for this height';
    return ['node', `${name}: ${state.replace('_', ' ')}${skipped}${trouble === null ? '' : `: ${trouble}`}`];
  });
  rows.push(['stream', `execution data ${streamWords(executionData)}`]);
  if (peer.state !== 'off') rows.push(['stream', `peer ${streamWords(peer)}`]);
  return rows;
}

function streamWords({ endpoint, height, state }: NonNullable<ExplainDocument['sources']>['peer']): string {
  const from = endpoint === null ? '' : ` from ${endpoint}`;
  return `${state}${from}${height === null ? '' : `, delivered height ${height}`}`;
}

function indexed({ firstIndexed, latestIndexed, head }: ExplainDocument): string {
  const chain = head === null ? '' : `; the chain's finalized head is ${head}`;
  if (firstIndexed === null) return `nothing yet${chain}`;
  if (latestIndexed === null) return `nothing yet, starts at height ${firstIndexed}${chain}`;
  return `heights ${firstIndexed} to ${latestIndexed}${chain}`;
}

const ago = (time: string, nowMs: number): string =>
  `${formatDuration((nowMs - Date.parse(time)) / 1000)} ago`;
