import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Codes } from './daemon/codes.js';
import { CommitsPanel } from './panels/CommitsPanel.js';
import { CoveragePanel } from './panels/CoveragePanel.js';
import { Figures } from './panels/Figures.js';
import { duration } from './format.js';
import { NodesPanel } from './panels/NodesPanel.js';
import { LogTroubles, NoAnswer, Reasons } from './panels/Reasons.js';
import { RacePanel } from './panels/RacePanel.js';
import { fromRoot } from './daemon/root.js';
import { Search } from './panels/Search.js';
import { standingOf, updateTab } from './daemon/standing.js';
import { TokenForm } from './panels/TokenForm.js';
import type { Status, View } from './types.js';
import { useNow } from './parts/useNow.js';
import { WindowPanel } from './panels/WindowPanel.js';
import { WorkersPanel } from './panels/WorkersPanel.js';

/** The whole page. */
export function App({
  view,
  codes,
  onToken,
}: {
  readonly view: View;
  readonly codes: Codes;
  /** Called when a token was entered and stored. */
  readonly onToken: () => void;
}): VNode {
  const { status, trouble } = view;
  const standing = standingOf(view, codes);
  const nowMs = useNow();
  // While the daemon does not answer, the ages in its last status stand still.
  const elapsed = trouble === undefined ? Math.max(0, (nowMs - view.receivedAtMs) / 1_000) : 0;
  useEffect(() => updateTab(standing, status?.network), [standing.look, standing.words, status?.network]);
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <div class="name">
          <h1>Flow collection indexer</h1>
          <p class="dim">{status === undefined ? 'Waiting for the first status' : whose(status, elapsed)}</p>
        </div>
        <p class={`standing ${standing.look}`} role="status">
          <span class="dot" aria-hidden="true" />
          {standing.words}
        </p>
      </header>
      <main id="content" tabIndex={-1}>
        {trouble === undefined ? null : (
          <NoAnswer trouble={trouble} nowMs={nowMs} hasStatus={status !== undefined} />
        )}
        {trouble?.wantsToken === true ? <TokenForm onToken={onToken} /> : null}
        <Search />
        {status === undefined ? null : (
          <div class={trouble === undefined ? 'content' : 'content stale'}>
            <Reasons status={status} codes={codes} elapsed={elapsed} />
            <LogTroubles status={status} elapsed={elapsed} />
            <Figures view={view} status={status} elapsed={elapsed} />
            <CoveragePanel status={status} />
            <WindowPanel status={status} elapsed={elapsed} />
            <div class="pair">
              <RacePanel status={status} />
              <CommitsPanel status={status} />
            </div>
            <NodesPanel status={status} elapsed={elapsed} />
            {status.cluster === null ? null : <WorkersPanel cluster={status.cluster} elapsed={elapsed} />}
          </div>
        )}
      </main>
      <footer>
        <nav aria-label="More of this daemon">
          <a href={fromRoot('docs')}>Routes of the API</a>
          <a href={fromRoot('status')}>Status as JSON</a>
          <a href={fromRoot('openapi.json')}>OpenAPI</a>
          <a href={fromRoot('v1/blocks?height=latest')}>Newest block</a>
        </nav>
        <p class="dim">Metrics, /livez and /readyz have a port of their own (metrics.port).</p>
      </footer>
    </>
  );
}

function whose({ chainId, network, uptimeSeconds, version }: Status, elapsed: number): string {
  return `${network} (${chainId}), version ${version}, up ${duration(Math.floor(uptimeSeconds + elapsed))}`;
}
