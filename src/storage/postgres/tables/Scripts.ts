/** Hashes that are kept at most. */
const MAX_SCRIPTS = 20_000;

/** Scripts that are stored for sure: they need not be sent again. */
export class Scripts {
  readonly #hashes = new Set<string>();

  has(hash: string): boolean {
    return this.#hashes.has(hash);
  }

  add(hashes: readonly string[]): void {
    for (const hash of hashes) {
      // Those in use stay young.
      this.#hashes.delete(hash);
      this.#hashes.add(hash);
    }
    for (const oldest of this.#hashes) {
      if (this.#hashes.size <= MAX_SCRIPTS) return;
      this.#hashes.delete(oldest);
    }
  }
}
