import type { Stage } from './Stage.js';

export interface Scene {
  readonly name: string;
  /** What it needs of the machine, beside Prometheus. */
  readonly needs?: 'root';
  readonly play: (stage: Stage) => Promise<void>;
}
