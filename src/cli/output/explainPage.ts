import type { ExplainDocument, MissingDocument, WorkDocument } from '../../api/index.js';
import { formatDuration } from '../../observability/index.js';
import { labelled, reasonWords } from './words.js';
import type { Row } from './words.js';

/** Missing collections that are described in full; the rest are only counted. */
const MAX_STORIES = 10;

/** Formats an explanation for people. Heights have no separators, so that they can be copied. */
export function renderExplanation(document: ExplainDocument, nowMs: number): string {
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
  const told = `${formatDuration(ageSeconds)} ago; ${missing} of ${collections} collections missing`;
  const rows: Row[] = [['handed out', told]];
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

function ago(time: string, nowMs: number): string {
  return `${formatDuration((nowMs - Date.parse(time)) / 1000)} ago`;
}
