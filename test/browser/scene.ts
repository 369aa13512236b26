import type { Chromium } from './Chromium.js';

export interface SceneOptions {
  readonly screenshots: string | undefined;
}
export type Scene = (browser: Chromium, options: SceneOptions) => Promise<void>;
