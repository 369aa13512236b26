// Which Markdown files are pages of the site, what they are called there, and how the menu lists them. The files stand
// where they stand in the repository: the site has no text of its own.

import { existsSync, readdirSync } from 'node:fs';
import { join, sep } from 'node:path';

export interface PageGroup {
  readonly title: string;
  readonly isCollapsed?: boolean;
  /** Title in the menu, and the file's path in the repository. */
  readonly pages: readonly (readonly [title: string, file: string])[];
}

const pageFolders = ['docs', 'deploy'];
const pagesAtTheRoot = ['SECURITY.md', 'CONTRIBUTING.md', 'AGENTS.md', 'CHANGELOG.md'];

/** Every page, as its path in the repository, sorted. */
export function pageFiles(root: string): readonly string[] {
  const inFolders = pageFolders
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(
        (path) => `${folder}/${path.split(sep).join('/')}`,
      ),
    )
    .filter((path) => path.endsWith('.md') && !path.includes('/.'));
  return [...inFolders, ...pagesAtTheRoot].sort();
}

/** Globs of what else the root of the repository holds, and is no page. */
export function otherFiles(root: string): readonly string[] {
  return readdirSync(root, { withFileTypes: true })
    .filter(({ name }) => !pageFolders.includes(name) && !pagesAtTheRoot.includes(name))
    .filter((entry) => entry.isDirectory() || entry.name.endsWith('.md'))
    .map((entry) => (entry.isDirectory() ? `${entry.name}/**` : entry.name));
}

/** A file's path within the site: `docs/` is its root, and a README is the index of its folder. */
export function sitePath(file: string): string {
  const inside = file.startsWith('docs/') ? file.slice('docs/'.length) : file.toLowerCase();
  return inside.replace(/(^|\/)readme\.md$/i, '$1index.md');
}

/** `0001-value-per-block.md` is called "0001 Value per block". */
function decisions(): [string, string][] {
  return readdirSync(new URL('../decisions', import.meta.url))
    .filter((name) => /^\d{4}-/.test(name))
    .sort()
    .map((name) => {
      const [number = '', first = '', ...rest] = name.replace('.md', '').split('-');
      const words = [first.charAt(0).toUpperCase() + first.slice(1), ...rest];
      return [`${number} ${words.join(' ')}`, `docs/decisions/${name}`];
    });
}

export const menu: readonly PageGroup[] = [
  {
    title: 'Start',
    pages: [
      ['Home', 'docs/index.md'],
      ['Quickstart', 'docs/quickstart.md'],
      ['Beside an access node', 'docs/beside-an-access-node.md'],
      ['On public nodes', 'docs/public-nodes.md'],
      ['Execution data only', 'docs/edi-only.md'],
      ['Backfill and scale-out', 'docs/scale-out.md'],
      ['FAQ', 'docs/faq.md'],
    ],
  },
  {
    title: 'Operate',
    pages: [
      ['Install', 'docs/install.md'],
      ['Upgrade', 'docs/upgrading.md'],
      ['Sizing', 'docs/sizing.md'],
      ['Monitoring', 'docs/monitoring.md'],
      ['Status page', 'docs/status-page.md'],
      ['Runbook', 'docs/runbook.md'],
      ['Dashboard and alerts', 'docs/alerts.md'],
      ['Readiness codes', 'docs/readiness.md'],
      ['Disk, readers, forwarding', 'docs/operations.md'],
      ['Backup and copies', 'docs/copies.md'],
      ['Mirrors', 'docs/mirrors.md'],
      ['PostgreSQL', 'docs/postgresql.md'],
      ['PostgreSQL behind a pooler', 'docs/poolers.md'],
      ['The whole chain', 'docs/whole-chain.md'],
      ['TLS and tokens', 'docs/tls-and-tokens.md'],
      ['Security', 'SECURITY.md'],
    ],
  },
  {
    title: 'Look up',
    pages: [
      ['Command line', 'docs/command-line.md'],
      ['Files for other tools', 'docs/export.md'],
      ['Configuration', 'docs/configuration.md'],
      ['Metrics', 'docs/metrics.md'],
      ['Data guide', 'docs/data-guide.md'],
      ['Proofs', 'docs/proofs.md'],
      ['API: overview', 'docs/api.md'],
      ['API: REST', 'docs/rest-api.md'],
      ['API: gRPC', 'docs/grpc.md'],
    ],
  },
  {
    title: 'Understand',
    pages: [
      ['Architecture', 'docs/architecture.md'],
      ['Job queue', 'docs/jobqueue.md'],
      ['Reliability', 'docs/reliability.md'],
      ['Performance', 'docs/performance.md'],
      ['Missed targets', 'docs/missed-targets.md'],
      ['Dependencies', 'docs/dependencies.md'],
      ['Changes', 'CHANGELOG.md'],
    ],
  },
  {
    title: 'Decisions',
    isCollapsed: true,
    pages: [['All decisions', 'docs/decisions/README.md'], ...decisions()],
  },
  {
    title: 'Contribute and test',
    isCollapsed: true,
    pages: [
      ['Contributing', 'CONTRIBUTING.md'],
      ['Commands and rules', 'AGENTS.md'],
      ['Releasing', 'docs/releasing.md'],
      ['Simulated access node', 'docs/devnet.md'],
      ['Simulation', 'docs/simulation.md'],
      ['Crash testing', 'docs/crash-testing.md'],
      ['Cluster testing', 'docs/cluster-testing.md'],
      ['Fault matrix', 'docs/fault-matrix.md'],
      ['Profiling', 'docs/profiling.md'],
    ],
  },
];
