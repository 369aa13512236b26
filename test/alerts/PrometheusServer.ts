import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { eventually, lastingPort } from '../support/daemons.js';
import { readRules } from '../support/alertRules.js';
import { scaledRules } from './scaledRules.js';

const JOB = 'flow-collection-indexer';

interface Series {
  readonly metric: Readonly<Record<string, string>>;
}

/** A real Prometheus that scrapes every second and evaluates the shipped rules, sped up. */
export class PrometheusServer {
  readonly url: string;
  readonly #directory: string;
  readonly #process: ChildProcess;
  readonly #targets = new Set<string>();
  #said = '';
  #hasEnded = false;

  private constructor(directory: string, port: number) {
    this.#directory = directory;
    this.url = `http://127.0.0.1:${port}`;
    this.#process = spawn(
      'prometheus',
      [
        `--config.file=${join(directory, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(directory, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
        '--log.level=warn',
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
    for (const event of ['error', 'close']) this.#process.once(event, () => (this.#hasEnded = true));
  }

  /** `directory`: empty, and kept by the caller until the server is closed. */
  static async start(directory: string): Promise<PrometheusServer> {
    mkdirSync(join(directory, 'data'));
    writeFileSync(join(directory, 'alerts.yml'), stringify(scaledRules(readRules())));
    writeFileSync(
      join(directory, 'prometheus.yml'),
      stringify({
        global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
        rule_files: ['alerts.yml'],
        scrape_configs: [{ job_name: JOB, file_sd_configs: [{ files: ['targets.json'] }] }],
      }),
    );
    writeFileSync(join(directory, 'targets.json'), '[]');
    const server = new PrometheusServer(directory, await lastingPort());
    await eventually(async () => {
      if (server.#hasEnded) throw new Error(`Prometheus has ended: ${server.#said}`);
      const answer = await fetch(`${server.url}/-/ready`).catch(() => undefined);
      return answer?.ok === true;
    });
    return server;
  }

  add(instance: string): void {
    this.#targets.add(instance);
    this.#writeTargets();
  }

  remove(instance: string): void {
    this.#targets.delete(instance);
    this.#writeTargets();
  }

  /** Names of the alerts that fire for an instance, or for none in particular. */
  async firing(instances: readonly string[]): Promise<ReadonlySet<string>> {
    const { alerts } = (await this.#ask('/api/v1/alerts')) as {
      alerts: { state: string; labels: Record<string, string> }[];
    };
    return new Set(
      alerts
        .filter(({ state }) => state === 'firing')
        .filter(({ labels: { instance } }) => instance === undefined || instances.includes(instance))
        .map(({ labels: { alertname = '' } }) => alertname),
    );
  }

  /** What a query gives over a time, in seconds since 1970. Throws with the words of Prometheus where it is wrong. */
  async queryRange(query: string, from: number, to: number): Promise<readonly Series[]> {
    const parameters = new URLSearchParams({ query, start: String(from), end: String(to), step: '5' });
    return ((await this.#ask(`/api/v1/query_range?${parameters.toString()}`)) as { result: Series[] }).result;
  }

  async holds(query: string): Promise<boolean> {
    const { result } = (await this.#ask(`/api/v1/query?${new URLSearchParams({ query }).toString()}`)) as {
      result: unknown[];
    };
    return result.length > 0;
  }

  async close(): Promise<void> {
    if (this.#hasEnded) return;
    const ended = new Promise((resolve) => this.#process.once('close', resolve));
    this.#process.kill();
    await ended;
  }

  /** In one step: a file that is half written would be no target at all. */
  #writeTargets(): void {
    const path = join(this.#directory, 'targets.json');
    writeFileSync(`${path}.new`, JSON.stringify([{ targets: [...this.#targets] }]));
    renameSync(`${path}.new`, path);
  }

  async #ask(path: string): Promise<unknown> {
    const answer = await fetch(this.url + path);
    const { data, error } = (await answer.json()) as { data?: unknown; error?: string };
    if (!answer.ok) throw new Error(`Prometheus says: ${error}`);
    return data;
  }
}
