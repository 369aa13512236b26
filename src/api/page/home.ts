import type { StatusDocument } from '../view/statusDocument.js';
import { html, page } from './Html.js';
import type { Html } from './Html.js';

/** The routes: path, description, and an example to try. */
const places: readonly (readonly [path: string, what: string, sample?: string])[] = [
  ['/docs', 'Every HTTP route, its parameters and responses.', '/docs'],
  ['/openapi.json', 'The same for machines (OpenAPI 3.1).', '/openapi.json'],
  ['/status', 'What the daemon is doing, and why, as JSON.', '/status'],
  ['/v1/…', 'Flow’s own REST interface, here the newest indexed block.', '/v1/blocks?height=latest'],
  ['/v1/ws', 'Flow’s WebSocket API: the topics blocks and block_digests.'],
  ['/events', 'Each height as it becomes readable, as server-sent events.', '/events'],
  ['/lookup/{kind}/{key}', 'A block, collection or transaction with every place where it occurs.'],
  ['/explain/{key}', 'Why a height or an ID is present or missing.'],
  ['/export?from={height}', 'Blocks with their transactions as lines of JSON.'],
  [
    '/accounts/{address}/transactions',
    'The transactions of an account, where they are indexed (index.accounts).',
  ],
];

/** The page at `/`: whose daemon this is, and its routes. */
export function homePage(status: StatusDocument): string {
  const { network, chainId, version, firstIndexed, latestIndexed, head, ready, reasons } = status;
  const indexed =
    firstIndexed === null || latestIndexed === null || latestIndexed < firstIndexed
      ? 'nothing yet'
      : `${firstIndexed} to ${latestIndexed}`;
  const facts: readonly (readonly [string, string])[] = [
    ['Network', `${network} (${chainId})`],
    ['Indexed heights', indexed],
    ['Head of the chain', head === null ? 'not known yet' : String(head)],
    ['Ready', ready ? 'yes' : `no: ${reasons.map(({ message }) => message).join('; ')}`],
  ];
  return page(
    'Flow collection indexer',
    html`<h1>Flow collection indexer</h1>
      <p class="dim">${version}</p>
      <table>
        ${facts.map(([name, value]) => row(html`${name}`, value))}
      </table>
      <h2>Where things are</h2>
      <table>
        ${places.map(([path, what, sample]) => row(placeOf(path, sample), what))}
      </table>
      <p class="dim">
        gRPC (flow.access.AccessAPI) has a port of its own (api.grpcPort, 7181 unless set otherwise), and so
        have /metrics, /livez and /readyz (metrics.port, 7182).
      </p>`,
  );
}

function row(name: Html, value: string): Html {
  return html`<tr>
    <td>${name}</td>
    <td>${value}</td>
  </tr>`;
}

function placeOf(path: string, sample: string | undefined): Html {
  const shown = html`<code>${path}</code>`;
  return sample === undefined ? shown : html`<a href="${sample}">${shown}</a>`;
}
