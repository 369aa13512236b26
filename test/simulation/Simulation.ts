import { Catalogue } from './catalogue.js';
import { faultFree, scenarioOf, stretchOf } from './scenario.js';
import { Workshop, World } from './World.js';
import type { RunResult } from './World.js';

/** Runs seeds, and knows how each of them must end. */
export class Simulation {
  readonly #catalogue = new Catalogue();
  readonly #workshop = new Workshop();
  readonly #references: Map<number, string>;

  /** `references`: digests of fault-free runs by stretch, where they are known already. */
  constructor(options: { readonly references?: ReadonlyMap<number, string> } = {}) {
    this.#references = new Map(options.references);
  }

  /** The store of the fault-free run over a stretch. Expected errors: `RunFailure`. */
  async reference(index: number): Promise<string> {
    const known = this.#references.get(index);
    if (known !== undefined) return known;
    const { digest } = await this.faultFree(index);
    this.#references.set(index, digest);
    return digest;
  }

  /** Expected errors: `RunFailure`. */
  faultFree(index: number, print?: (line: string) => void): Promise<RunResult> {
    const stretch = this.#catalogue.at(index);
    const scenario = faultFree(index, stretch);
    return new World({ scenario, print }, { stretch, workshop: this.#workshop }).run(
      this.#references.get(index),
    );
  }

  /** Expected errors: `RunFailure`. */
  async run(seed: number, print?: (line: string) => void): Promise<RunResult> {
    const index = stretchOf(seed);
    const reference = await this.reference(index);
    const stretch = this.#catalogue.at(index);
    const scenario = scenarioOf(seed, stretch);
    return new World({ scenario, print }, { stretch, workshop: this.#workshop }).run(reference);
  }
}
