import { render, type VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { CoveragePanel } from './CoveragePanel.js';
import { fromRoot, watchStatus, type Codes, type Status, type View } from './daemon.js';
import { Figures } from './Figures.js';
import { duration } from './format.js';
import { NodesPanel } from './NodesPanel.js';
import { LogTroubles, NoAnswer, Reasons } from './Reasons.js';
import { Search } from './Search.js';
import { SourcesPanel } from './SourcesPanel.js';

/** The whole page. `onToken` is called when a token was entered and stored. */
function App({ view, codes, onToken }: { view: View; codes: Codes; onToken: () => void }): VNode {
  const { status, trouble } = view;
  const standing = standingOf(view, codes);
  useEffect(() => updateTab(standing, status?.network), [standing.look, standing.words, status?.network]);
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <div>
          <h1>Flow collection indexer</h1>
          <p class="dim">{status === undefined ? 'Waiting for the first status' : whose(status)}</p>
        </div>
        <p class={`standing ${standing.look}`} role="status">
          <span class="dot" aria-hidden="true" />
          {standing.words}
        </p>
      </header>
      <main id="content" tabIndex={-1}>
        <NoAnswer view={view} onToken={onToken} />
        <Search />
        {status && (
          <div class={trouble === undefined ? 'content' : 'content stale'}>
            <Reasons status={status} codes={codes} />
            <LogTroubles status={status} />
            <Figures status={status} />
            <CoveragePanel status={status} />
            <SourcesPanel status={status} />
            <NodesPanel status={status} />
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

function whose({ chainId, network, uptimeSeconds, version }: Status): string {
  return `${network} (${chainId}), version ${version}, up ${duration(Math.floor(uptimeSeconds))}`;
}

const root = document.getElementById('page');
if (root === null) throw new Error('the page has no place for its content');
const codes = JSON.parse(document.getElementById('readiness-codes')?.textContent ?? '{}') as Codes;
const askAgain = watchStatus((view) =>
  render(<App view={view} codes={codes} onToken={() => askAgain()} />, root),
);

/** The state of the daemon in a word or two. */
interface Standing {
  readonly look: 'ok' | 'busy' | 'bad' | 'unknown';
  readonly words: string;
}

function standingOf({ status, trouble }: View, codes: Codes): Standing {
  if (trouble?.kind === 'token') return { look: 'unknown', words: 'Token wanted' };
  if (trouble !== undefined)
    return { look: 'bad', words: trouble.kind === 'refused' ? 'No status' : 'No answer' };
  if (status === undefined) return { look: 'unknown', words: 'Connecting' };
  if (status.ready) return { look: 'ok', words: 'Ready' };
  const names = status.reasons.map(({ code }) => code);
  if (names.includes('stopping')) return { look: 'busy', words: 'Stopping' };
  if (names.some((name) => codes[name]?.severity !== 'ordinary')) return { look: 'bad', words: 'Not ready' };
  return { look: 'busy', words: names.includes('behind') ? 'Catching up' : 'Starting' };
}

const COLOURS = { ok: '#1a7f4b', busy: '#1f6feb', bad: '#c62f2f', unknown: '#7a8592' } as const;

/** Shows it in the tab's title and icon. */
function updateTab({ look, words }: Standing, network: string | undefined): void {
  const name = network === undefined ? 'Flow collection indexer' : `${network}: Flow collection indexer`;
  document.title = `${words}: ${name}`;
  const dot = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="${COLOURS[look]}"/></svg>`;
  const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]');
  const href = `data:image/svg+xml,${encodeURIComponent(dot)}`;
  if (icon !== null && icon.href !== href) icon.href = href;
}
