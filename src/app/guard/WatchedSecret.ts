import { stat } from 'node:fs/promises';
import type { Logger, Metrics } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';

/** What is read from files, and read again when they change. */
export interface SecretSource<T> {
  readonly kind: 'certificate' | 'tokens' | 'peer_token';
  readonly paths: readonly string[];
  /** Expected errors: OperatorError. */
  read(): Promise<T>;
  /** What tells one content from another; no secret. */
  nameOf(value: T): string;
  /** What the log says of a new content, which may not be secret. */
  describe(next: T, last: T): object;
}

export interface WatchedSecretDependencies {
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'secretReloads'>;
}

/** A secret from files. While what they hold cannot be used, what they held before stays in use. */
export class WatchedSecret<T> {
  readonly #source: SecretSource<T>;
  readonly #dependencies: WatchedSecretDependencies;
  #value: T;
  #stamp: string;
  #isRefused = false;
  /** The refusal that the log has. */
  #told: string | undefined;

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

  /** Reads the files if they have changed, or whoever runs the daemon wants it. True: there is a new value. */
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
    this.#told = undefined;
    if (this.#source.nameOf(next) === this.#source.nameOf(last)) return false;
    this.#value = next;
    const { logger, metrics } = this.#dependencies;
    metrics.secretReloads.inc({ secret: kind, outcome: 'changed' });
    logger.info({ secret: kind, ...this.#source.describe(next, last) }, 'a secret has changed');
    return true;
  }

  /** Two files are replaced one after the other: the first refusal may be half of a change, and is not told. */
  #refused(why: string, isWanted: boolean): void {
    const { logger, metrics } = this.#dependencies;
    metrics.secretReloads.inc({ secret: this.#source.kind, outcome: 'refused' });
    if ((this.#isRefused || isWanted) && this.#told !== why) {
      this.#told = why;
      const advice = 'mend the file; it is read again by itself';
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
