/** What a newcomer asks: where the answer stands, and words of it that decide. */
const asked: Readonly<Record<string, readonly [where: string, ...words: string[]]>> = {
  'How do I see it run without an access node?': [
    'docs/quickstart.md#see-it-run',
    'npm run quickstart',
    'simulated access node',
  ],
  'What do I have to install first?': [
    'docs/quickstart.md#what-you-need',
    '20.19 works',
    'Node.js 24 is recommended',
  ],
  'What does my access node have to offer?': [
    'docs/beside-an-access-node.md#what-the-node-has-to-offer',
    'flow.access.AccessAPI',
    'not required',
  ],
  'How do I start it beside my node?': [
    'docs/beside-an-access-node.md#start-it',
    '--access-node grpc://127.0.0.1:9000',
  ],
  'Will it overload my node?': [
    'docs/beside-an-access-node.md#how-much-it-asks-of-the-node',
    'window',
    '256',
    'requester.concurrency',
    'access.ratePerSecond',
  ],
  'Can I run it on public nodes, and how fast is that?': [
    'docs/public-nodes.md#how-fast',
    '80 calls per second',
    'hours',
  ],
  'How do I get history from before I started?': [
    'docs/scale-out.md#ranges-on-one-machine',
    'backfill plan',
    '--backfill everything',
  ],
  'How do I use several machines?': ['docs/scale-out.md#many-machines', 'PostgreSQL', '--roles backfill'],
  'When do I want execution data only?': ['docs/edi-only.md#when-to-use-it', '--edi-only', 'hybrid'],
  'How much disk does it need?': ['docs/sizing.md#disk', 'million blocks', 'million transactions', 'GB'],
  'How much memory and processor does it need?': ['docs/sizing.md#memory-and-processor', 'MiB', 'processor'],
  'How do I run it as a service?': ['docs/install.md', 'systemd'],
  'How do I know that it is well?': ['docs/monitoring.md#is-it-healthy', '/readyz', '/livez'],
  'Where are dashboard and alerts?': [
    'docs/alerts.md#setting-them-up',
    'deploy/prometheus/alerts.yml',
    'Grafana',
  ],
  'It is not ready: what does the code mean?': ['docs/readiness.md', 'upstream_unreachable', 'what to do'],
  'It does not move: what holds it up?': [
    'docs/command-line.md#explain',
    'fetching',
    'which nodes are asked',
  ],
  'The disk is full, or a file is damaged: what now?': [
    'docs/operations.md#what-you-see-what-it-means-what-to-do',
    'The disk is full',
    'repair --yes',
  ],
  'How do I look up a transaction?': [
    'docs/data-guide.md#look-something-up',
    'get transaction TRANSACTION_ID',
  ],
  'How do I get the data out?': ['docs/data-guide.md#export-it', 'export --output FILE', 'Lines of JSON'],
  'What is verified, and what do I have to trust?': [
    'SECURITY.md#what-is-verified-and-what-is-taken-on-trust',
    'recomputed from its bytes',
    'its id is recomputed',
  ],
};

/** What one types into the search field where that is not the question. */
const typed: Readonly<Record<string, string>> = {
  'What do I have to install first?': 'what you need Node.js npm',
  'How do I get history from before I started?': 'backfill plan history',
  'How do I run it as a service?': 'install systemd service',
  'How do I know that it is well?': 'is it healthy livez readyz',
  'It is not ready: what does the code mean?': 'readiness upstream_unreachable',
  'It does not move: what holds it up?': 'explain stage fetching',
  'How do I look up a transaction?': 'look something up transaction',
  'How do I get the data out?': 'export data lines of JSON',
};

export const questions = Object.entries(asked).map(([question, [where, ...words]]) => {
  const [page = '', anchor = ''] = where.split('#');
  return { question, page, anchor, words, search: typed[question] ?? question };
});
