import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { promisify } from 'node:util';
import { execFile } from 'node:child_process';
import { asList, asMap, asText, at, deployFolder, readYaml } from '../support/deployed.js';
import type { DeployedCommand, Yaml, YamlMap } from '../support/deployed.js';
import { eventually, lastingPort, runCommand, startProgram } from '../support/daemons.js';

const run = promisify(execFile);
const folder = join(deployFolder, 'compose');

/** What compose makes of `${NAME:-default}` where NAME is not set. */
function substituted(text: string): string {
  return text.replaceAll(/\$\{[A-Z_]+(?::?-([^}]*))?\}/g, (_, preset: string | undefined) => preset ?? '');
}

/** The services of a compose file, with what they take from another one. */
function servicesOf(file: string): ReadonlyMap<string, YamlMap> {
  const services = asMap(readYaml(`compose/${file}`)['services']);
  const whole = Object.entries(services).map(([name, service]): [string, YamlMap] => {
    const base = at(service, 'extends', 'file');
    if (base === undefined) return [name, asMap(service)];
    const inherited = servicesOf(asText(base)).get(asText(at(service, 'extends', 'service')));
    return [name, { ...asMap(inherited), ...asMap(service) }];
  });
  return new Map(whole);
}

function commandOf(service: YamlMap | undefined): DeployedCommand {
  const environment = Object.entries(asMap(at(service, 'environment') ?? {}));
  return {
    args: asList(at(service, 'command')).map(asText),
    environment: Object.fromEntries(environment.map(([key, value]) => [key, substituted(asText(value))])),
  };
}

describe.each(['compose.yaml', 'postgres.yaml'])('deploy/compose/%s', (file) => {
  const services = servicesOf(file);

  it('mounts what is there, into volumes that it declares', () => {
    const declared = Object.keys(asMap(readYaml(`compose/${file}`)['volumes']));
    for (const [name, service] of services) {
      for (const mount of asList(service['volumes'] ?? []).map(asText)) {
        const [source = ''] = mount.split(':');
        if (source.startsWith('.')) expect([name, existsSync(join(folder, source))]).toEqual([name, true]);
        else expect(declared).toContain(source);
      }
      const context = at(service, 'build', 'context');
      if (context !== undefined) expect(existsSync(join(folder, asText(context), 'Dockerfile'))).toBe(true);
    }
  });

  it('configures what the program takes, and has it call the simulated node', async () => {
    const { args: node } = commandOf(services.get('devnet'));
    for (const service of services.values()) {
      const { args, environment } = commandOf(asMap({ command: [], ...service }));
      if (args[0] !== 'start') continue;
      expect(environment['FCI_ACCESS_NODES']).toBe(`grpc://devnet:${node[node.indexOf('--port') + 1]}`);
      if (!('FCI_STORE' in environment))
        expect(environment['FCI_DATA_DIR']).toBe(`/data/${environment['FCI_NETWORK']}`);
      const { code, stderr } = await runCommand(['config', 'check', ...args.slice(1)], environment);
      expect([code, stderr]).toEqual([0, '']);
    }
  });

  it('has somebody for each role, publishes ports to this machine alone, and keeps every container of the program from writing elsewhere', () => {
    const lines = [...services.values()].map(({ command }) =>
      asList(command ?? [])
        .map(asText)
        .join(' '),
    );
    const starts = lines.filter((line) => line.startsWith('start'));
    const roles = starts.flatMap((line) =>
      (/--roles (\S+)/.exec(line)?.[1] ?? 'live,backfill,api').split(','),
    );
    expect([...new Set(roles)].sort()).toEqual(['api', 'backfill', 'live']);
    const published = [...services.values()].flatMap(({ ports }) => asList(ports ?? []).map(asText));
    expect(published.length).toBeGreaterThan(3);
    for (const port of published) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    const hosts = published.map((port) => port.split(':')[1]);
    expect(new Set(hosts).size).toBe(hosts.length);
    for (const service of services.values()) expect(service['restart']).toBe('unless-stopped');
    const own = [...services].filter(([, { image }]) => image === 'flow-collection-indexer');
    expect(own.length).toBeGreaterThan(1);
    for (const [, service] of own)
      expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], tmpfs: ['/tmp'] });
  });

  it('has Prometheus ask every process, by the rules and the dashboard of this repository', () => {
    const scraped = asList(
      at(readYaml('compose/prometheus.yml'), 'scrape_configs', 0, 'dns_sd_configs', 0, 'names'),
    );
    for (const [name, service] of services)
      if (at(service, 'command', 0) === 'start') expect(scraped).toContain(name);
    const rules = asList(readYaml('compose/prometheus.yml')['rule_files']).map(asText);
    const mounts = asList(services.get('prometheus')?.['volumes']).map(asText);
    for (const rule of rules)
      expect(mounts.some((mount) => mount.includes(`:/etc/prometheus/${rule}:`))).toBe(true);
    const provider = readYaml(`grafana/provisioning/dashboards/${provisioned('dashboards')}`);
    const path = asText(at(provider, 'providers', 0, 'options', 'path'));
    const dashboards = asList(services.get('grafana')?.['volumes']).map(asText);
    expect(dashboards.some((mount) => mount.includes(`:${path}:`))).toBe(true);
    const source = readYaml(`grafana/provisioning/datasources/${provisioned('datasources')}`);
    const url = asText(at(source, 'datasources', 0, 'url')).replace('$', '');
    expect(asMap(services.get('grafana')?.['environment'])).toHaveProperty(url);
  });
});

it('the simulated node of both is found by its health check', async () => {
  const port = String(await lastingPort());
  const here = (words: readonly Yaml[]) => words.map((word) => asText(word).replace('3570', port));
  const node = servicesOf('postgres.yaml').get('devnet');
  startProgram(here(asList(at(node, 'command'))));
  const [, program = '', ...args] = here(asList(at(node, 'healthcheck', 'test')));
  await eventually(() => run(program, args).then(Boolean, () => false));
});

function provisioned(kind: string): string {
  const [name] = readdirSync(join(deployFolder, 'grafana/provisioning', kind));
  return name ?? '';
}
