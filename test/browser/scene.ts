import type { StatusDocument } from '../../src/api/index.js';
import { eventually } from '../support/program.js';
import type { RunningDaemon } from '../support/runningDaemon.js';
import type { Chromium } from './Chromium.js';

export interface SceneOptions {
  readonly screenshots: string | undefined;
}
export type Scene = (browser: Chromium, options: SceneOptions) => Promise<void>;

/** Asks a daemon until its status is so. */
export async function until(
  daemon: RunningDaemon,
  holdsTrue: (status: StatusDocument) => boolean,
): Promise<StatusDocument> {
  return eventually(async () => {
    const status = await daemon.status();
    return holdsTrue(status) ? status : undefined;
  });
}
