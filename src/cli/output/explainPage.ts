import type { ExplainDocument, MissingDocument, WorkDocument } from '../../api/index.js';
import { formatDuration } from '../../observability/index.js';
import { labelled } from './words.js';

/** Missing collections that are described in full; the rest are only counted. */
const MAX_STORIES = 10;

/** Formats an explanation for people. Heights have no separators, so that they can be copied. */
export function renderExplanation(document: ExplainDocument, nowMs: number): string {
  const { summary, stage, blockId, work, reasons } = document;
  const rows: [string, string][] = [['stage', stage.replaceAll('_', ' ')]];
  if (blockId !== null) rows.push(['block', blockId]);
  if (work !== null) rows.push(...workRows(work, nowMs));
  if (stage !== 'indexed') rows.push(...sourceRows(document), ...holdingUpRows(document));
  rows.push(['indexed', indexed(document)]);
  for (const { code, message, sinceSeconds } of reasons)
    rows.push(['not ready', `${code}: ${message} (for ${formatDuration(sinceSeconds)})`]);
  return `${summary}\n\n${labelled(rows)}`;
}

function workRows(work: WorkDocument, nowMs: number): [string, string][] {
  const { missingCollections, missing, collections } = work;
  const rows: [string, string][] = [
    [
      'handed out',
      `${formatDuration(work.ageSeconds)} ago; ${missing} of ${collections} collections missing`,
    ],
  ];
  for (const one of missingCollections.slice(0, MAX_STORIES)) rows.push(...missingRows(one, nowMs));
  if (missing > MAX_STORIES) rows.push(['', `and ${missing - MAX_STORIES} more; --json lists up to 100`]);
  if (work.executionData !== null) rows.push(['edi', work.executionData]);
  if (work.peer !== null) rows.push(['peer', work.peer]);
  if (work.reportedBy !== null) rows.push(['guarantees', `unproven, on the word of ${work.reportedBy}`]);
  return rows;
}

function missingRows(one: MissingDocument, nowMs: number): [string, string][] {
  const rows: [string, string][] = [['missing', one.collectionId]];
  const now = one.isUnderWay ? 'being asked for now' : 'to be asked for again';
  if (one.attempts === 0 || one.lastAskedAt === null) {
    rows.push(['', one.isUnderWay ? now : 'not asked for yet']);
    return rows;
  }
  const last = `the last to ${one.lastNode ?? 'no node'} ${ago(one.lastAskedAt, nowMs)}`;
  rows.push(['', `${one.attempts} requests, ${last}; ${one.notFound} times not found; ${now}`]);
  for (const { node, count, lastError, lastAt } of one.failures)
    rows.push(['', `${node}: failed ${count} times, last ${ago(lastAt, nowMs)}: ${lastError}`]);
  return rows;
}

function sourceRows({ sources }: ExplainDocument): [string, string][] {
  if (sources === null) return [];
  const { nodes, executionData, peer } = sources;
  return [
    ...nodes.map(({ name, state, servesHeight, trouble }): [string, string] => [
      'node',
      `${name}: ${state.replace('_', ' ')}${servesHeight ? '' : ', not asked for this height'}${trouble === null ? '' : `: ${trouble}`}`,
    ]),
    ['stream', `execution data ${streamWords(executionData)}`],
    ...(peer.state === 'off' ? [] : [['stream', `peer ${streamWords(peer)}`] as [string, string]]),
  ];
}

function streamWords({ endpoint, height, state }: NonNullable<ExplainDocument['sources']>['peer']): string {
  const from = endpoint === null ? '' : ` from ${endpoint}`;
  return `${state}${from}${height === null ? '' : `, delivered height ${height}`}`;
}

function holdingUpRows({ holdingUp, height }: ExplainDocument): [string, string][] {
  if (holdingUp === null || holdingUp.height === height) return [];
  const since = `for ${formatDuration(holdingUp.ageSeconds)}`;
  return [['held up by', `height ${holdingUp.height}, ${since}: ${holdingUp.message}`]];
}

function indexed({ firstIndexed, latestIndexed, head }: ExplainDocument): string {
  const chain = head === null ? '' : `; the chain's finalized head is ${head}`;
  if (firstIndexed === null) return `nothing yet${chain}`;
  if (latestIndexed === null) return `nothing yet, starts at height ${firstIndexed}${chain}`;
  return `heights ${firstIndexed} to ${latestIndexed}${chain}`;
}

function ago(time: string, nowMs: number): string {
  return `${formatDuration((nowMs - Date.parse(time)) / 1000)} ago`;
}
