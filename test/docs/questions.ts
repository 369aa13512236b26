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

export const questions: readonly Question[] = [
  {
    question: 'How do I see it run without an access node?',
    page: 'docs/quickstart.md',
    anchor: 'see-it-run',
    words: ['npm run quickstart', 'simulated access node'],
    search: 'quickstart simulated',
  },
  {
    question: 'What do I have to install first?',
    page: 'docs/quickstart.md',
    anchor: 'what-you-need',
    words: ['20.19 works', 'Node.js 24 is recommended'],
    search: 'what you need Node.js npm',
  },
  {
    question: 'What does my access node have to offer?',
    page: 'docs/beside-an-access-node.md',
    anchor: 'what-the-node-has-to-offer',
    words: ['flow.access.AccessAPI', 'not required'],
    search: 'what the node has to offer',
  },
  {
    question: 'How do I start it beside my node?',
    page: 'docs/beside-an-access-node.md',
    anchor: 'start-it',
    words: ['--access-node grpc://127.0.0.1:9000'],
    search: 'beside access node start',
  },
  {
    question: 'Will it overload my node?',
    page: 'docs/beside-an-access-node.md',
    anchor: 'how-much-it-asks-of-the-node',
    words: ['window', '256', 'requester.concurrency', 'access.ratePerSecond'],
    search: 'how much it asks of the node',
  },
  {
    question: 'Can I run it on public nodes, and how fast is that?',
    page: 'docs/public-nodes.md',
    anchor: 'how-fast',
    words: ['80 calls per second', 'hours'],
    search: 'public node calls per second',
  },
  {
    question: 'How do I get history from before I started?',
    page: 'docs/scale-out.md',
    anchor: 'ranges-on-one-machine',
    words: ['backfill plan', '--backfill everything'],
    search: 'backfill plan history',
  },
  {
    question: 'How do I use several machines?',
    page: 'docs/scale-out.md',
    anchor: 'many-machines',
    words: ['PostgreSQL', '--roles backfill'],
    search: 'many machines',
  },
  {
    question: 'When do I want execution data only?',
    page: 'docs/edi-only.md',
    anchor: 'when-to-use-it',
    words: ['--edi-only', 'hybrid'],
    search: 'execution data only when to use',
  },
  {
    question: 'How much disk does it need?',
    page: 'docs/sizing.md',
    anchor: 'disk',
    words: ['million blocks', 'million transactions', 'GB'],
    search: 'sizing disk',
  },
  {
    question: 'How much memory and processor does it need?',
    page: 'docs/sizing.md',
    anchor: 'memory-and-processor',
    words: ['MiB', 'processor'],
    search: 'sizing memory processor',
  },
  {
    question: 'How do I run it as a service?',
    page: 'docs/install.md',
    anchor: '',
    words: ['systemd'],
    search: 'install systemd service',
  },
  {
    question: 'How do I know that it is well?',
    page: 'docs/monitoring.md',
    anchor: 'is-it-healthy',
    words: ['/readyz', '/livez'],
    search: 'is it healthy livez readyz',
  },
  {
    question: 'Where are dashboard and alerts?',
    page: 'docs/alerts.md',
    anchor: 'setting-them-up',
    words: ['deploy/prometheus/alerts.yml', 'Grafana'],
    search: 'dashboard alerts setting them up',
  },
  {
    question: 'It is not ready: what does the code mean?',
    page: 'docs/readiness.md',
    anchor: '',
    words: ['upstream_unreachable', 'what to do'],
    search: 'readiness upstream_unreachable',
  },
  {
    question: 'It does not move: what holds it up?',
    page: 'docs/command-line.md',
    anchor: 'explain',
    words: ['fetching', 'which nodes are asked'],
    search: 'explain stage fetching',
  },
  {
    question: 'The disk is full, or a file is damaged: what now?',
    page: 'docs/operations.md',
    anchor: 'what-you-see-what-it-means-what-to-do',
    words: ['The disk is full', 'repair --yes'],
    search: 'disk is full repair',
  },
  {
    question: 'How do I look up a transaction?',
    page: 'docs/data-guide.md',
    anchor: 'look-something-up',
    words: ['get transaction TRANSACTION_ID'],
    search: 'look something up transaction',
  },
  {
    question: 'How do I get the data out?',
    page: 'docs/data-guide.md',
    anchor: 'export-it',
    words: ['export --output FILE', 'Lines of JSON'],
    search: 'export data lines of JSON',
  },
  {
    question: 'What is verified, and what do I have to trust?',
    page: 'SECURITY.md',
    anchor: 'what-is-verified-and-what-is-taken-on-trust',
    words: ['recomputed from its bytes', 'its id is recomputed'],
    search: 'what is verified trust',
  },
];
