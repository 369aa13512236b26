import type { VNode } from 'preact';
import { findHref } from '../daemon/find.js';
import type { Found } from '../daemon/find.js';
import { fromRoot } from '../daemon/root.js';
import { age, count, many } from '../format.js';
import { Facts } from '../parts/Panel.js';
import { sentence } from '../sentence.js';
import type { Explanation } from '../types.js';

type Work = NonNullable<Explanation['work']>;

/** Stages in which nothing is wrong. */
const SOUND: ReadonlySet<Explanation['stage']> = new Set([
  'indexed',
  'committing',
  'waiting_for_gap',
  'awaiting_proof',
]);
/** Collections listed at most. */
const MAX_MISSING = 10;

/** The explanation and the document of what was found. */
export function Finding({ found: { explanation, document } }: { readonly found: Found }): VNode {
  const { kind, stage, summary, height, blockId, work, holdingUp } = explanation;
  return (
    <>
      <p>
        <span class={`pill ${SOUND.has(stage) ? 'ok' : 'busy'}`}>{stage.replaceAll('_', ' ')}</span> {summary}
      </p>
      <Facts
        items={[
          ['Kind', kind],
          ['Height', height === null ? 'none' : <a href={findHref(String(height))}>{count(height)}</a>],
          [
            'Block',
            blockId === null ? (
              'none'
            ) : (
              <a class="long" href={findHref(blockId)}>
                {blockId}
              </a>
            ),
          ],
        ]}
      />
      {work === null ? null : <InProgress work={work} />}
      {holdingUp === null || stage === 'indexed' ? null : (
        <p>
          The next height is {count(holdingUp.height)}, for {age(holdingUp.ageSeconds)}:{' '}
          {sentence(holdingUp.message)}
        </p>
      )}
      <h3>Document</h3>
      {'why' in document ? (
        <p class="dim">{sentence(document.why)}</p>
      ) : (
        <>
          <p>
            <a class="long" href={fromRoot(document.path)}>
              /{document.path}
            </a>
          </p>
          <pre tabIndex={0} role="region" aria-label="Document as JSON">
            {JSON.stringify(document.body, null, 2)}
          </pre>
        </>
      )}
      <details>
        <summary>Everything that is known about it</summary>
        <pre tabIndex={0} role="region" aria-label="Explanation as JSON">
          {JSON.stringify(explanation, null, 2)}
        </pre>
      </details>
    </>
  );
}

function InProgress({ work }: { readonly work: Work }): VNode {
  const { ageSeconds, collections, missing, missingCollections, executionData, reportedBy } = work;
  return (
    <>
      <p>
        In progress for {age(ageSeconds)}: lacks {count(missing)} of {many(collections, 'collection')}.
        {executionData === null ? '' : ` Execution data: ${sentence(executionData)}`}
        {reportedBy === null ? '' : ` Its guarantees are on the word of ${reportedBy}.`}
      </p>
      <ul class="troubles">
        {missingCollections.slice(0, MAX_MISSING).map(({ collectionId, attempts, lastNode, lastError }) => (
          <li key={collectionId}>
            <a class="long" href={findHref(collectionId)}>
              {collectionId}
            </a>
            : asked for {many(attempts, 'time')}
            {lastNode === null ? '' : `, last ${lastNode}`}
            {lastError === null ? '' : `: ${sentence(lastError)}`}
          </li>
        ))}
      </ul>
    </>
  );
}
