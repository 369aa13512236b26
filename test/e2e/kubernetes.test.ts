import { describe, expect, it } from 'vitest';
import { Deployment, StatefulSet } from 'kubernetes-models/apps/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { Namespace, Service } from 'kubernetes-models/v1';
import { programVersion } from '../../src/app/index.js';
import { runCommand } from '../support/commandLine.js';
import { asList, asMap, asText, at, readYaml, readYamlDocuments } from '../support/deployed.js';
import type { DeployedCommand, Yaml, YamlMap } from '../support/deployed.js';

const folder = 'kubernetes';

/** What Kubernetes publishes of each kind; `validate` throws where an object does not match it. */
const kinds = { Deployment, Namespace, PodDisruptionBudget, Service, StatefulSet };

const isKnown = (kind: string): kind is keyof typeof kinds => kind in kinds;

/** A part of a pod as kustomize merges it: maps by key, containers by name, other lists by what names an entry. */
function merged(below: Yaml | undefined, above: Yaml | undefined, key = ''): Yaml {
  if (above === undefined) return below ?? null;
  if (Array.isArray(below) && Array.isArray(above)) {
    const by = { containers: 'name', env: 'name', ports: 'containerPort', volumes: 'name' }[key];
    if (by === undefined) return above as Yaml;
    const named = (entries: Yaml[]) => new Map(entries.map((entry) => [at(entry, by), entry]));
    const whole = named(below as Yaml[]);
    for (const [name, entry] of named(above as Yaml[])) whole.set(name, merged(whole.get(name), entry));
    return [...whole.values()];
  }
  if (typeof below !== 'object' || typeof above !== 'object' || below === null || above === null)
    return above;
  const keys = new Set([...Object.keys(below), ...Object.keys(above)]);
  return Object.fromEntries([...keys].map((name) => [name, merged(at(below, name), at(above, name), name)]));
}

/** Everything that `kubectl apply -k` would send of a folder, but for names that kustomize changes. */
function applied(name: string): readonly YamlMap[] {
  const kustomization = readYaml(`${folder}/${name}/kustomization.yaml`);
  const patches = asList(kustomization['patches'] ?? []).map((patch) =>
    readYaml(`${folder}/${name}/${asText(at(patch, 'path'))}`),
  );
  return asList(kustomization['resources']).flatMap((resource) => {
    const path = asText(resource);
    if (path.startsWith('../')) return applied(path.slice(3));
    return readYamlDocuments(`${folder}/${name}/${path}`).map((document) =>
      patches
        .filter(({ kind }) => kind === document['kind'])
        .reduce((patched, patch) => asMap(merged({ ...patch, metadata: {} }, patched)), document),
    );
  });
}

const podOf = (document: YamlMap): Yaml | undefined => at(document, 'spec', 'template', 'spec');
const containerOf = (document: YamlMap): Yaml | undefined => at(podOf(document), 'containers', 0);

function configMap(kustomization: YamlMap, name: string): Record<string, string> {
  const made = asList(kustomization['configMapGenerator']).find((entry) => at(entry, 'name') === name);
  const literals = asList(at(made, 'literals')).map((line) => asText(line).split(/=(.*)/s));
  return Object.fromEntries(literals.map(([key = '', value = '']) => [key, value]));
}

/** The command line of a pod with its environment; secrets have no value here. */
function commandOf(kustomization: YamlMap, document: YamlMap): DeployedCommand {
  const container = containerOf(document);
  const environment: Record<string, string> = {};
  for (const source of asList(at(container, 'envFrom') ?? []))
    Object.assign(environment, configMap(kustomization, asText(at(source, 'configMapRef', 'name'))));
  for (const variable of asList(at(container, 'env') ?? [])) {
    const from = at(variable, 'valueFrom', 'configMapKeyRef');
    const value =
      from === undefined
        ? at(variable, 'value')
        : configMap(kustomization, asText(at(from, 'name')))[asText(at(from, 'key'))];
    if (value !== undefined) environment[asText(at(variable, 'name'))] = asText(value);
  }
  return { args: asList(at(container, 'args')).map(asText), environment };
}

describe.each(['leveldb', 'postgres'])('deploy/kubernetes/%s', (name) => {
  const kustomization = readYaml(`${folder}/${name}/kustomization.yaml`);
  const documents = applied(name);
  const pods = documents.filter((document) => podOf(document) !== undefined);

  it('is what Kubernetes takes', () => {
    expect(documents.length).toBeGreaterThan(3);
    for (const document of documents) {
      const kind = asText(document['kind']);
      if (!isKnown(kind)) throw new Error(`no schema for ${kind}`);
      // What kustomize adds: the labels of leveldb, as selector and on pods.
      const labels = at(kustomization, 'labels', 0, 'pairs');
      const isWorkload = podOf(document) !== undefined;
      const added =
        labels === undefined ? {} : { selector: { matchLabels: labels }, template: { metadata: { labels } } };
      const whole = isWorkload ? merged(document, { spec: added }) : document;
      new kinds[kind](whole as never).validate();
    }
  });

  it('lets no pod that is not ready, as while it catches up, hold up a change or the drain of a node', () => {
    for (const { kind, spec } of documents) {
      if (kind === 'StatefulSet') expect(at(spec, 'podManagementPolicy')).toBe('Parallel');
      if (kind === 'PodDisruptionBudget') expect(at(spec, 'unhealthyPodEvictionPolicy')).toBe('AlwaysAllow');
    }
  });

  it('runs the image of this version, and gives pods no right that they do not need', () => {
    expect(at(kustomization, 'images', 0)).toEqual({
      name: 'flow-collection-indexer',
      newTag: programVersion,
    });
    for (const pod of pods) {
      expect(at(containerOf(pod), 'image')).toBe('flow-collection-indexer');
      expect(podOf(pod)).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      });
      expect(at(containerOf(pod), 'securityContext')).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
    }
  });

  it('probes, mounts and serves only what its pods have', () => {
    for (const pod of pods) {
      const container = containerOf(pod);
      const ports = asList(at(container, 'ports')).map((port) => at(port, 'name'));
      for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
        expect(ports).toContain(at(container, probe, 'httpGet', 'port'));
        expect(['/livez', '/readyz']).toContain(at(container, probe, 'httpGet', 'path'));
      }
      // Who does not serve readers has the port of the metrics alone.
      const { args } = commandOf(kustomization, pod);
      const [, roles = 'api'] = /--roles (\S+)/.exec(args.join(' ')) ?? [];
      expect(ports.length > 1).toBe(roles === 'api');
      const claims = asList(at(pod, 'spec', 'volumeClaimTemplates') ?? []);
      const volumes = [
        ...asList(at(podOf(pod), 'volumes')).map((volume) => at(volume, 'name')),
        ...claims.map((claim) => at(claim, 'metadata', 'name')),
      ];
      const mounted = asList(at(container, 'volumeMounts')).map((mount) => at(mount, 'name'));
      expect([...mounted].sort()).toEqual([...volumes].sort());
    }
    for (const service of documents.filter(({ kind }) => kind === 'Service')) {
      const wanted = at(service, 'spec', 'selector', 'app.kubernetes.io/component');
      const behind = pods.filter(
        (pod) => at(pod, 'spec', 'template', 'metadata', 'labels', 'app.kubernetes.io/component') === wanted,
      );
      expect(behind).toHaveLength(1);
      const names = asList(at(containerOf(behind[0]!), 'ports')).map((port) => at(port, 'name'));
      for (const port of asList(at(service, 'spec', 'ports')))
        expect(names).toContain(at(port, 'targetPort'));
    }
  });

  it('configures what the program takes', async () => {
    for (const pod of pods) {
      const { args, environment } = commandOf(kustomization, pod);
      const { code, stderr } = await runCommand(['config', 'check', ...args.slice(1)], environment);
      expect([args[0], code, stderr]).toEqual(['start', 0, '']);
    }
  });
});
