import { stat } from 'node:fs/promises';
import type { Logger, Metrics } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';

/** How a secret is read from files. */
export interface SecretSource<T> {
  readonly kind: 'certificate' | 'tokens' | 'peer_token' | 'node_metadata';
  readonly paths: readonly string[];
  /** Expected errors: OperatorError. */
  read(): T | Promise<T>;
  /** Differs for every content; not secret. */
  nameOf(value: T): string;
  /** Log fields about a new content; not secret. */
  describe(next: T, last: T): object;
}

export interface WatchedSecretDependencies {
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'secretReloads'>;
}

/** A secret that is read again when its files change. While they cannot be used, the previous content stays in use. */
export class WatchedSecret<T> {
  readonly #source: SecretSource<T>;
  readonly #dependencies: WatchedSecretDependencies;
  #value: T;
  #stamp: string;
  #isRefused = false;
  /** The refusal that was logged last. */
  #logged: string | undefined;

  /** Expected errors: OperatorError. */
  static async open<T>(
    source: SecretSource<T>,
    dependencies: WatchedSecretDependencies,
  ): Promise<WatchedSecret<T>> {
    const stamp = await stampOf(source.paths);
    return new WatchedSecret(source, { ...dependencies, stamp, value: await source.read() });
  }

  private constructor(
    source: SecretSource<T>,
    {
      stamp,
      value,
      ...dependencies
    }: WatchedSecretDependencies & { readonly stamp: string; readonly value: T },
  ) {
    this.#source = source;
    this.#dependencies = dependencies;
    this.#stamp = stamp;
    this.#value = value;
    for (const outcome of ['changed', 'refused'] as const)
      dependencies.metrics.secretReloads.inc({ secret: source.kind, outcome }, 0);
  }

  get value(): T {
    return this.#value;
  }

  /** Reads the files if they have changed or the operator asked for it. True: there is a new value. */
  async look({ isWanted }: { readonly isWanted: boolean }): Promise<boolean> {
    const { kind, paths } = this.#source;
    const stamp = await stampOf(paths);
    if (stamp === this.#stamp && !isWanted && !this.#isRefused) return false;
    let next: T;
    try {
      next = await this.#source.read();
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#refused(error.message, isWanted);
      return false;
    }
    const last = this.#value;
    this.#stamp = stamp;
    this.#isRefused = false;
    this.#logged = undefined;
    if (this.#source.nameOf(next) === this.#source.nameOf(last)) return false;
    this.#value = next;
    const { logger, metrics } = this.#dependencies;
    metrics.secretReloads.inc({ secret: kind, outcome: 'changed' });
    logger.info({ secret: kind, ...this.#source.describe(next, last) }, 'a secret has changed');
    return true;
  }

  /** Two files are replaced one after the other, so the first refusal may be half of a change and is not logged. */
  #refused(why: string, isWanted: boolean): void {
    const { logger, metrics } = this.#dependencies;
    metrics.secretReloads.inc({ secret: this.#source.kind, outcome: 'refused' });
    if ((this.#isRefused || isWanted) && this.#logged !== why) {
      this.#logged = why;
      const advice = 'fix the file; the daemon reads it again by itself';
      const fields = { secret: this.#source.kind, why, advice };
      logger.error(fields, 'a secret cannot be used: the one before stays in use');
    }
    this.#isRefused = true;
  }
}

/** Changes with every change of the files. */
async function stampOf(paths: readonly string[]): Promise<string> {
  const stamps = paths.map(async (path) => {
    try {
      const { ino, mtimeMs, size } = await stat(path);
      return `${ino} ${mtimeMs} ${size}`;
    } catch {
      return 'gone';
    }
  });
  return (await Promise.all(stamps)).join();
}
