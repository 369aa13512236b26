import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { clashOfPorts, daemonSettings, loadConfig, type Setting } from '../../../src/config/index.js';
import { environmentOf } from '../../../src/config/settings.js';
import { OperatorError, withoutCredentials, type ExitReason } from '../../../src/runtime/index.js';
import { refusal, scratchDirectory } from '../../support/index.js';

function file(content: unknown): string {
  const path = join(scratchDirectory(), 'config.json');
  const isWritten = typeof content === 'string' || Buffer.isBuffer(content);
  writeFileSync(path, isWritten ? content : JSON.stringify(content));
  return path;
}

type Flags = Readonly<Record<string, readonly string[]>>;

/** `at`: the path of a file. */
function load(
  from: { file?: unknown; at?: string; environment?: Record<string, string>; flags?: Flags } = {},
  isTerminal = false,
) {
  const path = from.file === undefined ? from.at : file(from.file);
  const flags = new Map(Object.entries(from.flags ?? {}));
  return loadConfig({ file: path, environment: from.environment ?? {}, flags }, { isTerminal });
}

/** What a value becomes, or the refusal. */
function outcome(key: string, from: Parameters<typeof load>[0]): unknown {
  try {
    return load(from).effective[key];
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return error;
  }
}

const refused = (message: RegExp | string, exit: ExitReason = 'configuration') =>
  expect.objectContaining(refusal(exit, message)) as Error;

it('by default follows mainnet through the public node, below its rate limit', () => {
  const { config } = load();
  const accessNodes = ['grpc://access.mainnet.nodes.onflow.org:9000'];
  const chain = { chainId: 'flow-mainnet', dataDir: join('data', 'mainnet') };
  expect(config).toMatchObject({ ...chain, accessNodes, access: { ratePerSecond: 80 } });
  expect(load({ flags: { window: ['64'] } }).config.maxProcessing).toBe(64);
  expect(load({ flags: { window: ['64'], maxProcessing: ['3'] } }).config.maxProcessing).toBe(3);
  expect(config.edi).toEqual({ enabled: true, nodes: config.accessNodes });
});

it('by default drops the rate limit for a node of the operator’s own, and logs for the eye on a terminal', () => {
  const rateWith = (flags: Flags): number =>
    load({ flags: { accessNodes: ['mine:9000'], ...flags } }).config.access.ratePerSecond;
  expect([rateWith({}), rateWith({ 'access.ratePerSecond': ['7'] })]).toEqual([0, 7]);
  expect(load({}, true).config.log.format).toBe('pretty');
});

it('precedence: is default < file < environment < flag, key by key', () => {
  const { config, origins } = load({
    file: { window: 10, workersPerHeight: 10, maxProcessing: 10, api: { port: 10 } },
    environment: { FCI_WORKERS_PER_HEIGHT: '11', FCI_MAX_PROCESSING: '11' },
    flags: { maxProcessing: ['12'] },
  });
  expect(config).toMatchObject({ window: 10, workersPerHeight: 11, maxProcessing: 12, api: { port: 10 } });
  const environment = { workersPerHeight: 'environment', 'metrics.port': 'default' };
  expect(origins).toMatchObject({ ...environment, window: 'file', maxProcessing: 'flag' });
});

it('precedence: reads the address that requests are forwarded to, which is a base and nothing else', () => {
  const forwardRest = (address: string): string | undefined =>
    load({ flags: { 'api.forwardRest': [address] } }).config.api.forwardRest;
  expect(load({}).config.api).toMatchObject({ forward: false, forwardRest: undefined });
  expect(load({ flags: { 'api.forward': ['true'] } }).config.api.forward).toBe(true);
  expect(forwardRest('https://rest.example.org')).toBe('https://rest.example.org');
  expect(forwardRest('http://Node:8070/')).toBe('http://node:8070');
  expect(forwardRest('http://[::1]:8070/flow/')).toBe('http://[::1]:8070/flow');
  for (const wrong of [
    ...['node:8070', 'ftp://node', 'http://', 'https:///v1', 'http://node/v1', 'http://node/v1/'],
    ...['http://node/?x=1', 'http://node#x', 'http://user:sesame@node', 'http://node:99999', 'http://a b'],
  ])
    expect(() => forwardRest(wrong), wrong).toThrow(
      /--api-forward-rest(?!.*sesame).* is not an address such as https:/,
    );
});

it('precedence: reads the origins whose pages may read, all where none is named', () => {
  const originsOf = (from: Parameters<typeof load>[0]) => load(from).config.api.corsOrigins;
  const origins = (...written: string[]) => originsOf({ flags: { 'api.corsOrigins': written } });
  expect(originsOf({})).toEqual(['*']);
  expect(origins('https://App.example', 'http://b:3000')).toEqual(['https://app.example', 'http://b:3000']);
  expect(origins('none')).toEqual([]);
  expect(originsOf({ environment: { FCI_API_CORS_ORIGINS: 'http://a,http://b' } })).toHaveLength(2);
  expect(originsOf({ file: { api: { corsOrigins: [] } } })).toEqual([]);
  for (const wrong of ['app.example', 'https://app.example/', 'ftp://a', 'http://u:p@a', 'http://a/b', ''])
    expect(() => origins(wrong), wrong).toThrow(/--api-cors-origin/);
  expect(() => origins('none', 'http://a')).toThrow(/none alone/);
});

it.each([
  [{ file: { windwo: 3 } }, /Unknown key windwo.*Did you mean window\?/],
  [{ file: { api: { prot: 3 } } }, /api\.prot.*api\.port/],
  [{ file: { window: 0 } }, /window in .*0 is not a whole number from 1 to 4096/],
  [{ file: '{"api.port": 1,\n"api": {"port": 1}}' }, /file .*: lines 1 and 2 both set port; keep one/],
  [{ file: '{"__proto__": {"x": 1}}' }, /Unknown key __proto__/],
  [{ environment: { FCI_API_PORT: '70000' } }, /FCI_API_PORT.*65535/],
  [{ environment: { FCI_API_GRPC_PORT: '70000' } }, /GRPC_PORT.*off or a whole number from 0 to 65535/],
  [{ environment: { FCI_WINDOWS: '3' } }, /FCI_WINDOWS.*FCI_WINDOW\?/],
  [{ flags: { 'requester.backoffMinMs': ['20000'] } }, /backoffMaxMs/],
  [{ flags: { startHeight: ['9'], stopHeight: ['8'] } }, /stopHeight \(8\)/],
  [{ flags: { 'api.store': ['postgres://localhost/flow'] } }, /no such database is given/],
  [{ flags: { ediOnly: ['true'], 'edi.enabled': ['false'] } }, /Remove --no-edi .* or drop --edi-only/],
  [{ flags: { ediOnly: ['true'], peers: ['indexer:7181'] } }, /ediOnly takes .* alone, but peers/],
  [{ flags: { 'proof.finality': ['proven'], 'proof.mode': ['off'] } }, /Remove --proof-mode off, or/],
] as const)('refusals: %j is no configuration', (from, message) => {
  expect(() => load(from)).toThrow(refused(message));
});

it.each([
  [{ 'api.port': ['7181'] }, 'api.port and api.grpcPort are both 7181'],
  [{ 'metrics.port': ['7180'], 'metrics.host': ['localhost'] }, 'api.port and metrics.port are both 7180'],
  [{ 'metrics.port': ['7180'], 'metrics.host': ['10.0.0.1'] }, undefined],
  [{ 'api.port': ['0'], 'metrics.port': ['0'], 'api.grpcPort': ['0'], peers: ['localhost:7181'] }, undefined],
  [{ accessNodes: ['a:7181', 'grpcs://LOCALHOST:7181/'] }, 'accessNodes names the gRPC port of this daemon'],
  [{ peers: ['127.0.0.1:9'], 'api.grpcPort': ['9'], 'api.host': ['0.0.0.0'] }, 'peers names the gRPC port'],
  [{ 'edi.nodes': ['[::1]:7181'], 'api.host': ['::1'] }, 'edi.nodes names the gRPC port'],
  [{ peers: ['127.0.0.1:7181'], 'api.grpcPort': ['off'] }, undefined],
  [
    { peers: ['127.0.0.1:7181'], 'api.port': ['7181'], store: ['postgres://a/b'], roles: ['live'] },
    undefined,
  ],
] as const)('refusals: ports of %j clash: %s', (flags, said) => {
  const clash = clashOfPorts(load({ flags }).config);
  if (said === undefined) expect(clash).toBeUndefined();
  else expect(clash).toContain(said);
});

it.each([
  [{ network: ['testnt'] }, /--network.*mainnet, testnet, emulator, devnet/],
  [{ window: ['ten'] }, /--window/],
  [{ maxInFlightBytes: ['12 parsecs'] }, /128MiB/],
  [{ maxInFlightBytes: ['9'.repeat(400)] }, /: "9{80}…" is not a size/],
  [{ startHeight: ['9007199254740993'] }, /--start-height/],
] as const)('refusals: the flags %j are wrong use', (flags, message) => {
  expect(() => load({ flags })).toThrow(refused(message, 'usage'));
});

it('refusals: keeps control characters out of paths and addresses, and out of the data directory what is none', () => {
  const odd = ['a\u0000b', 'a\nb', '\u001b[2J', '~/data', '~', '$HOME/data', '${X}', '-', 'postgres://a/b'];
  for (const dataDir of odd)
    expect(() => load({ file: { dataDir } })).toThrow(/dataDir in .*: ".*" is not a directory/);
});

const size = 64 * 1024 * 1024;
it.each([
  // Blanks, line ends and quotes are of whatever wrote the value.
  ['window', ' 64 ', 64],
  ['window', '64\r\n', 64],
  ['window', '"64"', 64],
  ['dataDir', "'/data/index'\n", '/data/index'],
  ['log.level', '"debug"', 'debug'],
  ['edi.enabled', '"false"', false],
  // Quotes that are no pair belong to the value.
  ['window', '"64', /FCI_WINDOW: "\\"64" is not/],
  ['window', '"64\'', /FCI_WINDOW: .* is not/],
  // Empty is as if it were not there.
  ['window', '', 256],
  ['window', '  ', 256],
  ['window', '""', 256],
  ['store', '', null],
  ['accessNodes', '', ['grpc://access.mainnet.nodes.onflow.org:9000']],
  ['api.corsOrigins', '', ['*']],
  ...['true', 'TRUE', 'yes', 'On', '1'].map((word) => ['ediOnly', word, true] as const),
  ...['false', 'False', 'no', 'OFF', '0'].map((word) => ['index.accounts', word, false] as const),
  ...['y', 'enabled', '2', 'tru', 'null'].map((word) => ['ediOnly', word, /is not true or false/] as const),
  ['window', '0064', 64],
  ...['1e3', '0x10', '1_000', '1,000', '64.0', '+64', '64ms', '٦٤', '6 4'].map(
    (number) => ['window', number, /FCI_WINDOW: ".*" is not a whole number from 1 to 4096/] as const,
  ),
  ['stopHeight', '9007199254740993', /"9007199254740993" is not a whole number/],
  ['maxInFlightBytes', '64MiB', size],
  ['maxInFlightBytes', '64 MiB', size],
  ['maxInFlightBytes', String(size), size],
  ...['64MB', '64M', '64mib', '0.5GiB', '1e9', 'MiB'].map(
    (text) => ['maxInFlightBytes', text, /is not a size from 1MiB to 16GiB .*KiB, MiB or GiB/] as const,
  ),
  ['accessNodes', ' a:1 , b:2,', ['a:1', 'b:2']],
  ['accessNodes', ',', /FCI_ACCESS_NODES: "," is not a list/],
  ['api.grpcPort', 'OFF', /is not off or a whole number/],
  ['api.grpcPort', ' off ', 'off'],
  ['network', 'Mainnet', /is not one of mainnet/],
] as const)('values as surroundings write them %s of %j', (key, text, expected) => {
  const isRefused = expected instanceof RegExp;
  const seen = outcome(key, { environment: { [environmentOf(key)]: text } });
  expect(seen).toEqual(isRefused ? refused(expected) : expected);
  // A flag means the same; it is never empty.
  if (text.replaceAll(/[\s"]/g, '') === '') return;
  const ofFlag = outcome(key, { flags: { [key]: [text] } });
  expect(ofFlag).toEqual(isRefused ? refused(/^Wrong value for --/, 'usage') : expected);
});

it('values as surroundings write them means the same in a file as text, and null as if it were not there', () => {
  const texts = {
    window: ' 64 ',
    edi: { enabled: 'no' },
    accessNodes: 'a:1, b:2',
    maxInFlightBytes: '64MiB',
  };
  const { config, origins } = load({ file: { ...texts, store: null, log: { level: null }, dataDir: ' ' } });
  expect(config).toMatchObject({ window: 64, edi: { enabled: false }, accessNodes: ['a:1', 'b:2'] });
  expect([config.maxInFlightBytes, config.store, config.log.level]).toEqual([size, undefined, 'info']);
  expect(config.dataDir).toBe(join('data', 'mainnet'));
  expect(origins).toMatchObject({ window: 'file', store: 'default', 'log.level': 'default' });
  const odd = ['{"window": {"a.b": 1, "": {"__proto__": 1}}}', '{"window": [["1"]]}'];
  const deep = { is: { deep: 1 } };
  for (const wrong of [{ window: true }, { window: [64] }, { window: {} }, { window: deep }, ...odd])
    expect(() => load({ file: wrong })).toThrow(/window in .* is not a whole number/);
  for (const [wrong, said] of [
    [{ dataDir: 5 }, /dataDir in .*: 5 is not a directory/],
    [{ dataDir: 'x\ud800' }, /dataDir in .* is not a directory/],
    [{ accessNodes: ['a:1', 5] }, /accessNodes in .* is not a list/],
    [{ roles: ['live', null] }, /roles in .* is not a list of 1 to 3, each one of live, backfill, api/],
  ] as const)
    expect(() => load({ file: wrong })).toThrow(said);
});

it('values as surroundings write them may stand under a dotted key, and names its place when it is wrong', () => {
  expect(outcome('api.port', { file: { 'api.port': 1 } })).toBe(1);
  expect(() => load({ file: { 'api.port': 'x' } })).toThrow(/api\.port in .*: "x" is not/);
});

it('values as surroundings write them is told of where a stronger source hides it, and with all others of that source', () => {
  expect(() => load({ file: { window: 0 }, environment: { FCI_WINDOW: '9' } })).toThrow(/window in/);
  const hidden = { environment: { FCI_WINDOW: 'x' }, flags: { window: ['9'] } };
  expect(() => load(hidden)).toThrow(/environment variable FCI_WINDOW/);
  const environment = { FCI_WINDOW: 'x', FCI_LOG_LEVEL: 'loud', FCI_API_PORT: '7180' };
  expect(() => load({ environment })).toThrow(
    'Wrong value for environment variable FCI_WINDOW: "x" is not a whole number from 1 to 4096. ' +
      'Wrong value for environment variable FCI_LOG_LEVEL: "loud" is not one of debug, info, warn, error.',
  );
});

const utf16 = Buffer.from('\uFEFF{"window": 3}', 'utf16le');
it.each([
  ['CRLF', '{\r\n  "window": 3\r\n}\r\n', 3],
  ['a byte order mark', '\uFEFF{"window": 3}', 3],
  ['a comment as a key', '{"$comment": "why", "$schema": {"x": 1}, "window": 3}', 3],
  ['// comments', '{\n  // why\n  "window": 3\n}', /in JSON at line 2, column 3\. JSON has no comments/],
  ['a comma too many', '{\n"window": 3,\n}', /in JSON at line 3, column 1\..* no comma after the last/],
  ['nothing', '', /Unexpected end in JSON at line 1, column 1/],
  ['UTF-16', utf16, /not valid for encoding utf-8\. Save it as UTF-8\.$/],
  ['a group that is a list', '{"api": [1]}', /The key api in .* must be an object of keys/],
  ['an empty name', '{"": 1}', /Unknown key "" in/],
  ['a name of every object', '{"toString": 1}', /Unknown key toString in/],
  ['a name in other words', '{"Api": {"port": 1}}', /Unknown key Api in/],
  ['a name with dashes', '{"log-level": "info"}', /Unknown key log-level .* Did you mean log\.level\?/],
  ['its last word alone', '{"port": 1}', /Did you mean api\.port or metrics\.port\?/],
  ['groups without an end', '{"api": '.repeat(5_000) + '1' + '}'.repeat(5_000), /Unknown key api\.api in/],
])('files as editors and shells write them %s', (_name, content, expected) => {
  const seen = outcome('window', { file: content });
  expect(seen).toEqual(expected instanceof RegExp ? refused(expected) : expected);
});

it('files as editors and shells write them is refused by name where it is none', () => {
  for (const at of [scratchDirectory(), join(scratchDirectory(), 'nowhere.json')])
    expect(() => load({ at })).toThrow(/^Cannot read the configuration file .*: E(?:ISDIR|NOENT)/);
});

describe('variables of a Service or a container called like our prefix', () => {
  /** What Kubernetes sets for a Service with a named port, and Docker for a linked container. */
  const linksOf = (service: string) => ({
    [`${service}_SERVICE_HOST`]: '10.0.0.1',
    [`${service}_SERVICE_PORT`]: '80',
    [`${service}_SERVICE_PORT_HTTP`]: '80',
    [`${service}_SERVICE_PORT_GRPC_TLS`]: '7181',
    [`${service}_PORT`]: 'tcp://10.0.0.1:80',
    [`${service}_PORT_80_TCP`]: 'tcp://10.0.0.1:80',
    [`${service}_PORT_80_TCP_PROTO`]: 'tcp',
    [`${service}_PORT_80_TCP_PORT`]: '80',
    [`${service}_PORT_80_TCP_ADDR`]: '10.0.0.1',
    [`${service}_PORT_53_UDP`]: 'udp://[fd00::1]:53',
    [`${service}_PORT_53_UDP_ADDR`]: 'fd00::1',
    [`${service}_PORT_9_SCTP_PROTO`]: 'sctp',
    [`${service}_NAME`]: '/web/indexer',
    [`${service}_ENV_PATH`]: '/usr/bin:/bin',
    [`${service}_ENV_npm_config_x`]: '',
  });

  it.each(['FCI', 'FCI_API', 'FCI_API_GRPC', 'FCI_METRICS', 'FCI_INDEXER', 'FCI_READER_2', 'FCI_STORE'])(
    'are ignored and named for %s, and not what is meant',
    (service) => {
      const own = { FCI_WINDOW: '64', FCI_API_HOST: '0.0.0.0', FCI_LOG_LEVEL: 'debug' };
      const links = linksOf(service);
      const { config, origins, links: found } = load({ environment: { ...links, ...own } });
      expect(config).toMatchObject({
        ...{ window: 64, log: { level: 'debug' }, store: undefined },
        ...{ api: { host: '0.0.0.0', port: 7180, grpcPort: 7181 }, metrics: { port: 7182 } },
      });
      expect(origins['api.port']).toBe('default');
      expect([...found].sort()).toEqual(
        Object.entries(links)
          .filter(([, value]) => value !== '')
          .map(([name]) => name)
          .sort(),
      );
    },
  );

  it.each(Object.keys(daemonSettings))('never hide a value that is meant for %s', (key) => {
    const { links } = load({ environment: { [environmentOf(key)]: '' } });
    expect(links).toEqual([]);
    const meant = { 'api.port': 7190, 'metrics.port': 7192, 'api.grpcPort': 7191 }[key];
    if (meant === undefined) return;
    const loaded = load({ environment: { [environmentOf(key)]: String(meant) } });
    expect([loaded.effective[key], loaded.links]).toEqual([meant, []]);
  });

  it.each([
    ['FCI_API_PORT', 'abc', /FCI_API_PORT: "abc" is not a whole number from 0 to 65535/],
    ['FCI_API_PORT', 'tcp://', /FCI_API_PORT: .* is not a whole number/],
    ['FCI_API_PORT', 'http://10.0.0.1:80', /FCI_API_PORT: .* is not a whole number/],
    ['FCI_API_HOST', '', undefined],
    ['FCI_APIPORT', '1', /Unknown environment variable FCI_APIPORT\. Did you mean FCI_API_PORT\?/],
    ['FCI_PORT', '7180', /FCI_PORT\. Did you mean .*FCI_API_(?:GRPC_)?PORT or FCI_METRICS_PORT\?/],
    ['FCI_SERVICE', 'x', /Unknown environment variable FCI_SERVICE\./],
    ['FCI_NAME', 'mine', /Unknown environment variable FCI_NAME\./],
    ['FCI_log_level', 'info', /Did you mean FCI_LOG_LEVEL\?/],
    ['FCI_ENVIRONMENT', 'x', /Unknown environment variable FCI_ENVIRONMENT\./],
  ])('are told from a mistake: %s=%s', (name, value, expected) => {
    const run = () => load({ environment: { [name]: value } });
    if (expected === undefined) expect(run().links).toEqual([]);
    else expect(run).toThrow(expected);
  });
});

it.each([
  ['mainnet', 'flow-mainnet'],
  ['testnet', 'flow-testnet'],
  ['emulator', 'flow-emulator'],
  ['devnet', 'flow-localnet'],
])('config/%s.json is for its network, which has the chain id that Flow gives it', (network, chainId) => {
  const at = join(import.meta.dirname, '../../../config', `${network}.json`);
  expect(load({ at }).config).toMatchObject({ network, chainId });
});

it('gives every key a default that its own format accepts', () => {
  for (const [key, { default: unset, format }] of Object.entries<Setting>(daemonSettings)) {
    expect(unset === null || format.accepts(unset), key).toBe(true);
    expect(withoutCredentials(format.allowed), 'what a refusal says').toBe(format.allowed);
  }
});

const database = { store: ['postgres://localhost/flow'] };
const rolesOf = (from: Parameters<typeof load>[0]) => load(from).config.roles;

it('roles are all of them unless some are named, in any way, that are known and have a database to share', () => {
  expect(rolesOf({})).toEqual(['live', 'backfill', 'api']);
  expect(rolesOf({ flags: database })).toEqual(['live', 'backfill', 'api']);
  expect(rolesOf({ flags: { ...database, roles: ['api, live'] } })).toEqual(['live', 'api']);
  expect(rolesOf({ flags: { ...database, roles: ['api', 'backfill'] } })).toEqual(['backfill', 'api']);
  const environment = { FCI_STORE: 'postgres://localhost/flow', FCI_ROLES: 'backfill' };
  expect(rolesOf({ environment })).toEqual(['backfill']);
  expect(rolesOf({ file: { store: 'postgres://localhost/flow', roles: ['api'] } })).toEqual(['api']);
  const wrong = () => load({ flags: { ...database, roles: ['live,reader'] } });
  expect(wrong).toThrow(/--roles.*live, backfill, api/);
  const planned = () => load({ flags: { ...database, roles: ['live'], 'backfill.plan': ['root'] } });
  expect(planned).toThrow(/Add the role backfill/);
  expect(() => load({ flags: { roles: ['live'] } })).toThrow(refused(/no store is given/));
});

const peer = { peers: ['indexer:7181'] };

it('a mirror has no access node and no execution data, and says so in the configuration that is printed', () => {
  const { config, effective } = load({ flags: { accessNodes: ['none'], ...peer } });
  expect(config).toMatchObject({ accessNodes: [], ...peer, edi: { enabled: false, nodes: [] } });
  expect(effective['accessNodes']).toEqual(['none']);
});

it.each([
  [{ accessNodes: ['none'] }, /Add --peer HOST:PORT/],
  [{ accessNodes: ['none', 'node:9000'], ...peer }, /names none and 1 more/],
  [{ accessNodes: ['none'], 'edi.nodes': ['node:9000'], ...peer }, /Drop --edi-only and --edi-node/],
  [{ accessNodes: ['none'], ediOnly: ['true'], ...peer }, /Drop --edi-only and --edi-node/],
])('a mirror is refused with %o, which contradicts it', (flags, message) => {
  expect(() => load({ flags })).toThrow(refused(message));
});
