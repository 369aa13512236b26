import { accessSync, constants, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as workflowParser from '@actions/workflow-parser';
import { build } from 'esbuild';
import { expect, it } from 'vitest';
import { parse } from 'yaml';

const root = join(import.meta.dirname, '../../..');
const workflowFolder = join(root, '.github/workflows');
const { scripts, engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
};

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly 'timeout-minutes'?: number;
  readonly strategy?: { readonly matrix: { readonly node: readonly string[] } };
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

/** GitHub's own parser, bundled: it imports its JSON in a way that Node.js does not take. */
async function loadParser(): Promise<typeof workflowParser> {
  const folder = mkdtempSync(join(tmpdir(), 'fci-parser-'));
  const outfile = join(folder, 'parser.mjs');
  await build({
    entryPoints: ['@actions/workflow-parser'],
    absWorkingDir: root,
    ...{ bundle: true, format: 'esm', platform: 'node', outfile },
  });
  const parser = (await import(pathToFileURL(outfile).href)) as typeof workflowParser;
  rmSync(folder, { recursive: true });
  return parser;
}

const { NoOperationTraceWriter, parseWorkflow } = await loadParser();

function errorsIn(content: string): string[] {
  const { context } = parseWorkflow({ name: 'workflow.yml', content }, new NoOperationTraceWriter());
  return context.errors.getErrors().map(({ message }) => message);
}

const files = readdirSync(workflowFolder).map((name) => ({
  name,
  text: readFileSync(join(workflowFolder, name), 'utf8'),
}));
const workflows = new Map(files.map(({ name, text }) => [name, parse(text) as Workflow]));
const stepsOf = ({ jobs }: Workflow): Step[] => Object.values(jobs).flatMap(({ steps }) => steps);

it.each(files)('$name is one that the host takes', ({ text }) => {
  expect(errorsIn(text)).toEqual([]);
  expect(errorsIn(text.replaceAll('runs-on', 'run-on'))).not.toEqual([]);
});

it.each([...workflows])(
  '%s may do what it needs, with actions of a fixed version, and runs what there is',
  (_, workflow) => {
    expect(workflow.permissions).toEqual({ contents: 'read' });
    for (const job of Object.values(workflow.jobs)) expect(job['timeout-minutes']).toBeGreaterThan(0);
    for (const { uses, with: options } of stepsOf(workflow)) {
      if (uses === undefined) continue;
      expect(uses).toMatch(/@(?:v\d+|[0-9a-f]{40})$/);
      if (uses.startsWith('actions/checkout@'))
        expect(options).toMatchObject({ 'persist-credentials': false });
    }
    const commands = stepsOf(workflow).flatMap(({ run }) => (run === undefined ? [] : [run]));
    expect(commands.length).toBeGreaterThan(1);
    for (const command of commands) {
      const [, script] = /^npm run (\S+)/.exec(command) ?? [];
      if (script !== undefined) expect(Object.keys(scripts)).toContain(script);
      else if (command.startsWith('.')) accessSync(join(root, command), constants.X_OK);
      else expect(command).toMatch(/^(?:npm (?:ci|audit|publish)|sha256sum) ?/);
    }
  },
);

it('test a change on every Node.js that the package names, and look for known vulnerabilities', () => {
  const { jobs } = workflows.get('ci.yml') as Workflow;
  expect(jobs['test']?.strategy?.matrix.node).toEqual(['20', '22', '24']);
  expect(engines.node).toBe('^20.19.0 || >=22.12.0');
  expect(jobs['test']?.steps.at(-1)?.run).toBe('.ci/run');
  expect(jobs['audit']?.steps.at(-1)?.run).toBe('npm audit --omit=dev');
});

it('publish with a proof of origin, from a job that has built nothing', () => {
  const { jobs } = workflows.get('publish.yml') as Workflow;
  const mayProve = Object.entries(jobs).filter(([, job]) => job.permissions?.['id-token'] === 'write');
  expect(mayProve.map(([name]) => name)).toEqual(['publish']);
  const runs = jobs['publish']?.steps.flatMap(({ run }) => (run === undefined ? [] : [run]));
  expect(runs).toEqual([
    'sha256sum --check SHA256SUMS',
    expect.stringMatching(/^npm publish --provenance .*\.tgz$/),
  ]);
});
