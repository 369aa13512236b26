/** What a newcomer asks, where the answer stands, and words that decide it. */
export interface Question {
  readonly question: string;
  /** File and heading in the repository. */
  readonly page: string;
  readonly anchor: string;
  /** Each stands in that section. */
  readonly words: readonly string[];
  /** What one would type into the search field. */
  readonly search: string;
}

/** By the question: where the answer stands, the words, and what one would search for. */
const asked: Readonly<Record<string, readonly [where: string, words: readonly string[], search: string]>> = {
  'How do I see it run without an access node?': [
    'docs/quickstart.md#see-it-run',
    ['npm run quickstart', 'simulated access node'],
    'quickstart simulated',
  ],
  'What do I have to install first?': [
    'docs/quickstart.md#what-you-need',
    ['20.19 works', 'Node.js 24 is recommended'],
    'what you need Node.js npm',
  ],
  'What does my access node have to offer?': [
    'docs/beside-an-access-node.md#what-the-node-has-to-offer',
    ['flow.access.AccessAPI', 'not required'],
    'what the node has to offer',
  ],
  'How do I start it beside my node?': [
    'docs/beside-an-access-node.md#start-it',
    ['--access-node grpc://127.0.0.1:9000'],
    'beside access node start',
  ],
  'Will it overload my node?': [
    'docs/beside-an-access-node.md#how-much-it-asks-of-the-node',
    ['window', '256', 'requester.concurrency', 'access.ratePerSecond'],
    'how much it asks of the node',
  ],
  'Can I run it on public nodes, and how fast is that?': [
    'docs/public-nodes.md#how-fast',
    ['80 calls per second', 'hours'],
    'public node calls per second',
  ],
  'How do I get history from before I started?': [
    'docs/scale-out.md#ranges-on-one-machine',
    ['backfill plan', '--backfill everything'],
    'backfill plan history',
  ],
  'How do I use several machines?': [
    'docs/scale-out.md#many-machines',
    ['PostgreSQL', '--roles backfill'],
    'many machines',
  ],
  'When do I want execution data only?': [
    'docs/edi-only.md#when-to-use-it',
    ['--edi-only', 'hybrid'],
    'execution data only when to use',
  ],
  'How much disk does it need?': [
    'docs/sizing.md#disk',
    ['million blocks', 'million transactions', 'GB'],
    'sizing disk',
  ],
  'How much memory and processor does it need?': [
    'docs/sizing.md#memory-and-processor',
    ['MiB', 'processor'],
    'sizing memory processor',
  ],
  'How do I run it as a service?': ['docs/install.md', ['systemd'], 'install systemd service'],
  'How do I know that it is well?': [
    'docs/monitoring.md#is-it-healthy',
    ['/readyz', '/livez'],
    'is it healthy livez readyz',
  ],
  'Where are dashboard and alerts?': [
    'docs/alerts.md#setting-them-up',
    ['deploy/prometheus/alerts.yml', 'Grafana'],
    'dashboard alerts setting them up',
  ],
  'It is not ready: what does the code mean?': [
    'docs/readiness.md',
    ['upstream_unreachable', 'what to do'],
    'readiness upstream_unreachable',
  ],
  'It does not move: what holds it up?': [
    'docs/command-line.md#explain',
    ['fetching', 'which nodes are asked'],
    'explain stage fetching',
  ],
  'The disk is full, or a file is damaged: what now?': [
    'docs/operations.md#what-you-see-what-it-means-what-to-do',
    ['The disk is full', 'repair --yes'],
    'disk is full repair',
  ],
  'How do I look up a transaction?': [
    'docs/data-guide.md#look-something-up',
    ['get transaction TRANSACTION_ID'],
    'look something up transaction',
  ],
  'How do I get the data out?': [
    'docs/data-guide.md#export-it',
    ['export --output FILE', 'Lines of JSON'],
    'export data lines of JSON',
  ],
  'What is verified, and what do I have to trust?': [
    'SECURITY.md#what-is-verified-and-what-is-taken-on-trust',
    ['recomputed from its bytes', 'its id is recomputed'],
    'what is verified trust',
  ],
};

export const questions: readonly Question[] = Object.entries(asked).map(
  ([question, [where, words, search]]) => {
    const [page = '', anchor = ''] = where.split('#');
    return { question, page, anchor, words, search };
  },
);
